//! A real redis-server, and a client that shows replies unchanged.

#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use steadlock_store::{Reply, StoreError};

/// A redis-server for one test, stopped when dropped.
pub struct RealRedis {
    process: Child,
    folder: PathBuf,
    address: SocketAddr,
}

impl RealRedis {
    /// Starts a server, and waits until it answers.
    pub fn start() -> Self {
        // The port was free a moment ago. If another process takes it first, redis-server fails and the test tries
        // another port.
        for _ in 0..5 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            if let Some(server) = Self::start_on(port) {
                return server;
            }
        }
        panic!("redis-server did not start; is it installed?");
    }

    fn start_on(port: u16) -> Option<Self> {
        let folder = std::env::temp_dir().join(format!("steadlock-redis-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let process = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--dir"])
            .arg(&folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut server = Self {
            process,
            folder,
            address,
        };
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline && server.process.try_wait().unwrap().is_none() {
            if TcpStream::connect(address).is_ok() {
                let mut wire = Wire::connect(address);
                if wire.call(&["PING"]) == Reply::Status("PONG".into()) {
                    return Some(server);
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }

    /// Returns the server's address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for RealRedis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A connection that knows only the protocol.
pub struct Wire {
    stream: BufReader<TcpStream>,
}

impl Wire {
    /// Connects.
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self {
            stream: BufReader::new(stream),
        }
    }

    /// Sends a command and reads its reply.
    pub fn call<A: AsRef<[u8]>>(&mut self, words: &[A]) -> Reply {
        self.send(words);
        self.read()
    }

    /// Sends a command.
    pub fn send<A: AsRef<[u8]>>(&mut self, words: &[A]) {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            let word = word.as_ref();
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        self.send_raw(&bytes);
    }

    /// Sends these bytes.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// Sends these bytes. An error is ignored, because the server may have closed the connection.
    pub fn send_raw_or_closed(&mut self, bytes: &[u8]) {
        let _ = self.stream.get_mut().write_all(bytes);
    }

    /// Returns the same connection, for writing on another thread.
    pub fn second_half(&self) -> TcpStream {
        self.stream.get_ref().try_clone().unwrap()
    }

    /// Reads a reply or a push. A push becomes an array.
    pub fn read(&mut self) -> Reply {
        let line = self.read_line().expect("the connection is open");
        let (kind, rest) = line.split_at(1);
        let count = || rest.parse::<i64>().unwrap();
        match kind {
            "+" => Reply::Status(rest.to_owned().into()),
            "-" => Reply::Error(StoreError::parse(rest)),
            ":" => Reply::Int(count()),
            "," => Reply::Double(rest.parse().unwrap()),
            "_" => Reply::Nil,
            "$" if rest == "-1" => Reply::Nil,
            "$" => {
                let mut bytes = vec![0; usize::try_from(count()).unwrap() + 2];
                self.stream.read_exact(&mut bytes).unwrap();
                bytes.truncate(bytes.len() - 2);
                Reply::Bytes(bytes)
            }
            "*" if rest == "-1" => Reply::NilArray,
            "*" | ">" => Reply::Array((0..count()).map(|_| self.read()).collect()),
            "~" => Reply::Set((0..count()).map(|_| self.read()).collect()),
            "%" => Reply::Map((0..count()).map(|_| (self.read(), self.read())).collect()),
            other => panic!("unknown reply {other:?}{rest:?}"),
        }
    }

    /// Returns whether the server has closed the connection, after all replies were read.
    pub fn is_closed(&mut self) -> bool {
        match self.stream.fill_buf() {
            Ok(more) => more.is_empty(),
            // A timeout is not a closed connection.
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }

    /// Returns the next line as text, or `None` at the end.
    pub fn read_line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).ok()?;
        let line = line.strip_suffix(b"\r\n")?;
        Some(String::from_utf8_lossy(line).into_owned())
    }
}
