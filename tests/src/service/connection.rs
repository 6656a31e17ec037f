//! What becomes of the requests on a connection.

use std::future::pending;
use std::io;
use std::pin::pin;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::select;

use super::front::Front;
use super::order::Mood;
use super::request::Request;
use super::told::End;

/// As much as most requests need.
const USUAL_REQUEST: usize = 1 << 10;
/// Longer ones are no part of a storm.
const MAX_REQUEST: usize = 2 << 20;

/// One connection to its end.
pub async fn serve(mut stream: TcpStream, front: &Front) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut heard = Vec::with_capacity(USUAL_REQUEST);
    while let Some(request) = hear(&mut stream, &mut heard).await? {
        let arrival = front.counts.comes(&request.caller, &request.target);
        let status = match front.queue.mood() {
            Mood::Hang(share) if front.draws(share) => {
                drop(arrival);
                return ignore(&mut stream).await;
            }
            Mood::Status(status, share) if front.draws(share) => status,
            _ => {
                let mut work = pin!(work(&request, front));
                select! {
                    biased;
                    status = &mut work => status,
                    () = is_left(&stream) => {
                        // The work goes on; a descriptor for each who has left would be 20,000 in
                        // seconds, and the storm one of the machine's limits.
                        drop(stream);
                        work.await;
                        arrival.ends(End::Wasted);
                        return Ok(());
                    }
                }
            }
        };
        if !is_awaited(&stream, &mut heard) {
            arrival.ends(End::Wasted);
            return Ok(());
        }
        match stream.write_all(&answer(status, &request)).await {
            Ok(()) if status < 400 => arrival.ends(End::Answered),
            Ok(()) => arrival.ends(End::Failed),
            Err(_) => {
                arrival.ends(End::Wasted);
                return Ok(());
            }
        }
        if request.is_last {
            return Ok(());
        }
    }
    Ok(())
}

/// The next whole request; `None` at the end of the connection, or of the service's patience.
async fn hear(stream: &mut TcpStream, heard: &mut Vec<u8>) -> io::Result<Option<Request>> {
    loop {
        if !heard.is_empty() {
            match Request::read(heard) {
                Ok(Some((request, length))) => {
                    heard.drain(..length);
                    return Ok(Some(request));
                }
                Ok(None) if heard.len() < MAX_REQUEST => {}
                Ok(None) | Err(_) => return Ok(None),
            }
        }
        if stream.read_buf(heard).await? == 0 {
            return Ok(None);
        }
    }
}

/// The request's turn in the queue, then what the layer below says, but where this caller's requests fail.
async fn work(request: &Request, front: &Front) -> u16 {
    front.queue.pass().await;
    match &front.backend {
        Some(backend) => backend.ask(request, &front.counts).await,
        None if front.fails(&request.caller) => 503,
        None => 200,
    }
}

/// Keeps the connection open, and silent, for as long as the caller does.
async fn ignore(stream: &mut TcpStream) -> io::Result<()> {
    while stream.read(&mut [0; 256]).await? > 0 {}
    Ok(())
}

/// Ends when the caller has closed; never where it has sent more.
async fn is_left(stream: &TcpStream) {
    match stream.peek(&mut [0]).await {
        Ok(0) | Err(_) => {}
        Ok(_) => pending().await,
    }
}

/// A caller who has closed reads as the end of the stream. What the others have sent is kept.
fn is_awaited(stream: &TcpStream, heard: &mut Vec<u8>) -> bool {
    match stream.try_read_buf(heard) {
        Ok(read) => read > 0,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

fn answer(status: u16, request: &Request) -> Vec<u8> {
    let ending = match request.is_last {
        true => "Connection: close\r\n",
        false => "",
    };
    let body = match request.method.as_str() {
        "HEAD" => "",
        _ => "ok\n",
    };
    format!("HTTP/1.1 {status} Storm\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n{ending}\r\n{body}")
        .into_bytes()
}
