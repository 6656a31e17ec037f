"""A gRPC server that answers every call; prints its port, and ends when it is killed."""

from concurrent.futures import ThreadPoolExecutor

import grpc


class Everything(grpc.GenericRpcHandler):
    def service(self, _call):
        return grpc.unary_unary_rpc_method_handler(lambda _request, _context: b"ok")


server = grpc.server(ThreadPoolExecutor(4), handlers=[Everything()])
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
server.wait_for_termination()
