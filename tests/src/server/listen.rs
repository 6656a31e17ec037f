//! The listening half of a server: takes orders, opens and closes the port, accepts.

use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime;
use tokio::sync::{mpsc, watch};

use super::connection::Connection;
use super::{Behaviour, Counts, Order, Protocol};

/// As many as the kernel allows by default (`net.core.somaxconn`): a storm must not fill it.
const BACKLOG: u32 = 4096;

pub struct Service {
    port: u16,
    protocol: Protocol,
    mood: watch::Sender<Behaviour>,
    counts: Arc<Counts>,
}

impl Service {
    pub fn new(port: u16, protocol: Protocol, behaviour: Behaviour, counts: Arc<Counts>) -> Self {
        Self {
            port,
            protocol,
            mood: watch::Sender::new(behaviour),
            counts,
        }
    }

    /// Serves until nobody can give orders any more. One thread does all.
    pub fn run(self, orders: mpsc::UnboundedReceiver<Order>) {
        match runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime.block_on(self.serve(orders)),
            // The order that `Server::start` waits for fails with this.
            Err(error) => eprintln!("harness: no runtime for a server: {error}"),
        }
    }

    async fn serve(self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let mut listener = None;
        loop {
            tokio::select! {
                order = orders.recv() => {
                    let Some(Order { behaviour, done }) = order else { return };
                    let turned = self.turn_to(behaviour, &mut listener);
                    // The one who ordered may have lost patience and gone.
                    let _ = done.send(turned);
                }
                accepted = accept(listener.as_ref()), if *self.mood.borrow() != Behaviour::Stall => {
                    // An aborted handshake is the caller's affair.
                    if let Ok(stream) = accepted { self.welcome(stream) }
                }
            }
        }
    }

    fn turn_to(&self, behaviour: Behaviour, listener: &mut Option<TcpListener>) -> Result<()> {
        if behaviour == Behaviour::Refuse {
            *listener = None;
        } else if listener.is_none() {
            *listener = Some(
                open(self.port).with_context(|| format!("cannot listen on port {}", self.port))?,
            );
        }
        self.mood.send_replace(behaviour);
        Ok(())
    }

    fn welcome(&self, stream: TcpStream) {
        self.counts.connects.hit();
        let connection = Connection::new(
            stream,
            self.protocol,
            self.mood.subscribe(),
            Arc::clone(&self.counts),
        );
        tokio::spawn(connection.serve());
    }
}

/// One socket for both families: IPv4 callers arrive as mapped addresses.
pub fn open(port: u16) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v6()?;
    // Else closed connections in TIME_WAIT would keep the port from coming back.
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port))?;
    socket.listen(BACKLOG)
}

async fn accept(listener: Option<&TcpListener>) -> io::Result<TcpStream> {
    match listener {
        Some(listener) => listener.accept().await.map(|(stream, _)| stream),
        None => std::future::pending().await,
    }
}
