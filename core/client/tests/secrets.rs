//! Tests that no message, representation or cause repeats a secret, even one that was given in a wrong place. The tests
//! give each shape of `ci/secrets/shapes.json` to the Rust API.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::fmt::Debug;
use std::time::Duration;

use serde_json::Value;
use steadlock::Builder;
use steadlock::blocking::{Client, Lock, Semaphore};

const SHAPES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ci/secrets/shapes.json");

/// Everything that a program could print of the result of a call.
struct Printed(String);

impl Printed {
    fn of(values: &[&dyn Debug]) -> Self {
        Self(format!("{values:?} {values:#?}"))
    }

    fn result<T: Debug>(result: &Result<T, steadlock::Error>) -> Self {
        let mut printed = format!("{result:?} {result:#?}");
        if let Err(error) = result {
            printed += &format!(
                "{error} {} {:?} {:?} {:?}",
                error.message(),
                error.cause(),
                error.lock_name(),
                error.holder()
            );
            let mut cause = error.source();
            while let Some(next) = cause {
                printed += &format!("{next} {next:?}");
                cause = next.source();
            }
        }
        Self(printed)
    }

    fn with(self, other: &Self) -> Self {
        Self(self.0 + &other.0)
    }
}

fn connect(builder: Builder) -> Printed {
    let builder = builder.connect_timeout(Duration::from_secs(1));
    Printed::of(&[&builder]).with(&Printed::result(&builder.connect_blocking()))
}

fn memory() -> Client {
    Client::connect("memory://").unwrap()
}

/// Attempts to acquire a lock twice, and makes other calls that can fail.
fn use_lock(client: &Client, lock: Lock) -> Printed {
    let first = lock.clone().wait(Duration::ZERO).acquire();
    let second = lock.clone().wait(Duration::ZERO).acquire();
    let printed = Printed::of(&[client, &lock])
        .with(&Printed::result(&first))
        .with(&Printed::result(&second))
        .with(&Printed::result(&lock.clone().lease(Duration::ZERO).acquire()))
        .with(&Printed::result(&lock.holder()))
        .with(&Printed::result(&client.force_release(&lock)));
    client.close();
    printed.with(&Printed::result(&lock.acquire()))
}

fn use_semaphore(client: &Client, semaphore: Semaphore) -> Printed {
    let printed = Printed::of(&[&semaphore])
        .with(&Printed::result(&semaphore.try_acquire(0)))
        .with(&Printed::result(&client.set_limit(semaphore.name(), 0)));
    printed.with(&use_lock(client, semaphore.permits(1)))
}

fn print_with_secret_at(place: &str, given: &str) -> Printed {
    let client = memory();
    let tls = || Client::builder().url("rediss://127.0.0.1:1");
    match place {
        "connect" => connect(Client::builder().url(given)),
        "redlock, one of the primaries" => {
            connect(Client::builder().primaries([given, "redis://127.0.0.1:1", "redis://127.0.0.1:2"]))
        }
        "prefix" => {
            let builder = Client::builder().url("memory://").key_prefix(given);
            let printed = Printed::of(&[&builder]);
            match builder.connect_blocking() {
                Ok(client) => {
                    let bad = client.lock("{}a").acquire();
                    printed
                        .with(&Printed::result(&bad))
                        .with(&use_lock(&client, client.lock("a")))
                }
                refused => printed.with(&Printed::result(&refused)),
            }
        }
        "a file of authorities" => connect(tls().tls_ca_file(given)),
        "a file of a certificate" => connect(tls().tls_cert_file(given).tls_key_file(SHAPES)),
        "a file of a key" => connect(tls().tls_cert_file(SHAPES).tls_key_file(given)),
        "a URL in a file's place" => connect(tls().tls_ca_file(given)),
        "a server's name" => connect(tls().tls_server_name(given)),
        "an address map" => {
            let cluster = |map| connect(Client::builder().url("redis+cluster://127.0.0.1:1").address_map(map));
            cluster([(given, "h:1")]).with(&cluster([("h:1", given)]))
        }
        "name of a lock" => use_lock(&client, client.lock(given)),
        "name of a mutex" => use_lock(&client, client.mutex(given)),
        "name of a fair lock" => use_lock(&client, client.fair_lock(given)),
        "name of a read-write lock" => {
            let sides = client.read_write_lock(given);
            let reading = sides.read.acquire();
            Printed::of(&[&sides])
                .with(&Printed::result(&reading))
                .with(&use_lock(&client, sides.write))
        }
        "name of a semaphore" => use_semaphore(&client, client.semaphore(given, 1)),
        "name of several locks" => {
            let (one, other) = (client.lock(given), client.lock("other"));
            use_lock(&client, client.multi_lock([&one, &other]))
        }
        _ => panic!("shapes.json has the place {place:?}, which is not tried here"),
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("{value} has no {key}"))
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("there is no {key}"))
}

/// Returns the texts to give in a place, each with the secrets that must not appear afterwards.
fn given<'a>(shapes: &'a Value, place: &Value) -> Vec<(String, Vec<&'a str>)> {
    let (kind, field) = match text(place, "given") {
        "urls" => ("urls", "url"),
        "names" => ("names", "name"),
        _ => {
            return list(shapes, "keys")
                .iter()
                .map(|key| (text(key, "text").to_owned(), vec!["hunter2"]))
                .collect();
        }
    };
    let mut all = Vec::new();
    for shape in list(shapes, kind) {
        for secret in list(shapes, "secrets") {
            if shape["unless"]
                .as_str()
                .is_some_and(|first| text(secret, "raw").contains(first))
            {
                continue;
            }
            let made = text(shape, field)
                .replace("{raw}", text(secret, "raw"))
                .replace("{encoded}", text(secret, "encoded"));
            all.push((made, list(secret, "marks").iter().filter_map(Value::as_str).collect()));
        }
    }
    all
}

#[test]
fn no_secret_is_printed_wherever_it_was_given() {
    let shapes: Value = serde_json::from_str(&std::fs::read_to_string(SHAPES).unwrap()).unwrap();
    let mut leaks = BTreeMap::new();
    for place in list(&shapes, "places") {
        if place["not in"]["rust"].is_string() {
            continue;
        }
        for (given, marks) in given(&shapes, place) {
            let Printed(printed) = print_with_secret_at(text(place, "place"), &given);
            if marks.iter().any(|mark| printed.contains(mark)) {
                leaks.insert(format!("{}: {given}", text(place, "place")), printed);
            }
        }
    }
    assert!(
        leaks.is_empty(),
        "{} leaks, such as {:#?}",
        leaks.len(),
        leaks.first_key_value()
    );
}

#[test]
fn a_server_that_repeats_the_password_is_not_quoted() {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // This server replies to every request with an error that repeats the request.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut bytes = [0; 4096];
            let count = stream.read(&mut bytes).unwrap_or(0);
            let echo = String::from_utf8_lossy(&bytes[..count]).replace(['\r', '\n'], " ");
            for _ in 0..8 {
                let _ =
                    stream.write_all(format!("-ERR unknown command, with args beginning with: {echo}\r\n").as_bytes());
            }
        }
    });
    for credentials in [":hunter2", "default:hunter2", "hunter2:word", "hunter2:hunter2"] {
        let Printed(printed) = connect(Client::builder().url(format!("redis://{credentials}@127.0.0.1:{port}")));
        assert!(printed.contains("Err(") && !printed.contains("hunter2"), "{printed}");
    }
}
