//! A `steadlock serve --http` in a separate process, and clients that know only HTTP/1.1 and RESP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

/// The server on free ports, stopped when dropped.
pub(crate) struct Served {
    process: Child,
    pub(crate) redis: u16,
    pub(crate) http: u16,
}

impl Served {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_at("127.0.0.1", arguments)
    }

    /// Starts the server with HTTP on this address.
    pub(crate) fn start_at(address: &str, arguments: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_steadlock"))
            .args(["serve", "--port", "0", "--http", &format!("{address}:0")])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut port = |start: &str| -> u16 {
            let line = lines.next().unwrap().unwrap();
            let port = line.strip_prefix(start);
            port.unwrap_or_else(|| panic!("it says {line:?}")).parse().unwrap()
        };
        let redis = port("steadlock: listening on redis://127.0.0.1:");
        let http = port(&format!("steadlock: http on http://{address}:"));
        Self { process, redis, http }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.http)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Sends a request and returns the answer. A `\n` separates the lines of the head. A `Host` is added unless the
    /// head has one.
    pub(crate) fn ask(&self, head: &str, body: &[u8]) -> Answer {
        self.ask_on(self.connect(), head, body)
    }

    pub(crate) fn ask_on(&self, mut stream: TcpStream, head: &str, body: &[u8]) -> Answer {
        let (line, rest) = head.split_once('\n').unwrap_or((head, ""));
        let has_host = rest.lines().any(|line| line.to_ascii_lowercase().starts_with("host:"));
        let host = if has_host {
            String::new()
        } else {
            format!("Host: 127.0.0.1:{}\r\n", self.http)
        };
        let rest: String = rest.lines().map(|line| format!("{line}\r\n")).collect();
        let length = body.len();
        let head = format!("{line} HTTP/1.1\r\n{host}Connection: close\r\nContent-Length: {length}\r\n{rest}\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        // A refusal can arrive before the whole body is sent.
        let _ = stream.write_all(body);
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        Answer::read(&bytes)
    }

    /// Returns the answer to a command as a JSON array.
    pub(crate) fn post(&self, body: &str) -> Answer {
        self.ask("POST /", body.as_bytes())
    }

    /// Returns the result of a command that must succeed.
    pub(crate) fn result(&self, body: &str) -> Value {
        let answer = self.post(body);
        assert_eq!(answer.status, 200, "{body:.200}: {}", answer.text());
        answer.json()["result"].take()
    }

    /// Opens a subscription, and waits until it is confirmed.
    pub(crate) fn listen(&self, path: &str) -> Listener {
        let mut stream = self.connect();
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut listener = Listener(BufReader::new(stream));
        let head: Vec<_> = std::iter::from_fn(|| listener.line().filter(|line| !line.is_empty())).collect();
        assert_eq!(head.first().map(String::as_str), Some("HTTP/1.1 200 OK"), "{head:?}");
        assert!(
            head.iter().any(|line| line == "content-type: text/event-stream"),
            "{head:?}"
        );
        listener
    }

    /// Sends a command on a new connection.
    pub(crate) fn send_inline(&self, line: &str) -> String {
        self.redis_client().send_inline(line)
    }

    /// Opens a connection to the port for Redis clients.
    pub(crate) fn redis_client(&self) -> RedisClient {
        RedisClient(BufReader::new(TcpStream::connect(("127.0.0.1", self.redis)).unwrap()))
    }

    /// Returns the most memory that the process has had, in megabytes.
    #[cfg(target_os = "linux")]
    pub(crate) fn peak_megabytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("the server lives");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes: u64 = line.unwrap().trim().trim_end_matches(" kB").parse().unwrap();
        kilobytes / 1024
    }
}

pub(crate) struct RedisClient(BufReader<TcpStream>);

impl RedisClient {
    /// Sends a command in its inline form, and returns the first line of the reply.
    pub(crate) fn send_inline(&mut self, line: &str) -> String {
        self.0.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
        let mut reply = String::new();
        self.0.read_line(&mut reply).unwrap();
        reply.trim_end().to_owned()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn read(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|end| end == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no answer but {:?}", String::from_utf8_lossy(bytes)));
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self {
            status,
            head,
            body: bytes[end + 4..].to_vec(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.body
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON but {}", self.text()))
    }

    /// Returns the error message of a refusal.
    pub(crate) fn error(&self) -> String {
        let json = self.json();
        json["error"]
            .as_str()
            .unwrap_or_else(|| panic!("no error but {json}"))
            .to_owned()
    }
}

/// A client that receives events.
pub(crate) struct Listener(BufReader<TcpStream>);

impl Listener {
    /// Returns the data of the next event; `None` if the server has closed the stream.
    pub(crate) fn event(&mut self) -> Option<String> {
        let mut data = Vec::new();
        loop {
            let line = self.line()?;
            if let Some(part) = line.strip_prefix("data: ") {
                data.push(part.to_owned());
            } else if line.is_empty() && !data.is_empty() {
                return Some(data.join("\n"));
            }
        }
    }

    fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        match self.0.read_until(b'\n', &mut line) {
            Ok(1..) => Some(
                String::from_utf8(line)
                    .unwrap()
                    .trim_end_matches(['\r', '\n'])
                    .to_owned(),
            ),
            Ok(0) => None,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Writes a file with a secret, and returns its path.
pub(crate) fn secret(name: &str, content: &str) -> String {
    let path = temporary(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

pub(crate) fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("steadlock-http-{}-{name}", std::process::id()))
}
