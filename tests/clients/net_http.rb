# Net::HTTP, which silently sends an idempotent request again where it got no answer.
# Command line and log as of operations.py.
require "json"
require "net/http"

base, operations, retries, timeout, pause, targets = ARGV
address = URI(base)
http = Net::HTTP.new(address.host, address.port, nil)
http.max_retries = retries.to_i
http.open_timeout = http.read_timeout = timeout.to_f
operations.to_i.times do |op|
  sleep(pause.to_f) if op > 0
  line = { op: op }
  began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  begin
    http.start unless http.started?
    line[:status] = http.get(targets == "distinct" ? "/op/#{op}" : "/hot").code.to_i
  rescue SystemCallError, IOError, Timeout::Error => error
    line[:error] = "#{error.class}: #{error.message}"
  end
  line[:seconds] = Process.clock_gettime(Process::CLOCK_MONOTONIC) - began
  puts line.to_json
  $stdout.flush
end
