//! The files of `--http-root`.

use std::path::PathBuf;

use crate::support::{Answer, Served, secret, temporary};

/// A folder with files to serve. Files next to the folder must not be served.
struct Folder(PathBuf);

impl Folder {
    fn make(name: &str) -> Self {
        let around = temporary(name);
        let root = around.join("root");
        std::fs::create_dir_all(root.join("sub/deep")).unwrap();
        std::fs::create_dir_all(root.join("get")).unwrap();
        for (path, content) in [
            ("root/index.html", "<p>front</p>"),
            ("root/sub/index.html", "<p>sub</p>"),
            ("root/sub/deep/a b.mjs", "export {}"),
            ("root/app.js", "1"),
            ("root/style.css", "a{}"),
            ("root/m.wasm", "\0asm"),
            ("root/app.js.map", "{}"),
            ("root/i.svg", "<svg/>"),
            ("root/i.png", "png"),
            ("root/data", "plain"),
            ("root/get/shown.json", "{}"),
            ("root/.hidden", "hidden"),
            ("beside.txt", "beside"),
        ] {
            std::fs::write(around.join(path), content).unwrap();
        }
        Self(around)
    }

    fn root(&self) -> PathBuf {
        self.0.join("root")
    }

    fn serve(&self, more: &[&str]) -> Served {
        let root = self.root();
        Served::start(&[&["--http-root", root.to_str().unwrap()], more].concat())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn get(served: &Served, path: &str) -> Answer {
    served.ask(&format!("GET {path}"), b"")
}

#[test]
fn each_file_has_its_type() {
    let folder = Folder::make("types");
    let served = folder.serve(&[]);
    for (path, kind, content) in [
        ("/", "text/html; charset=utf-8", "<p>front</p>"),
        ("/?x=1", "text/html; charset=utf-8", "<p>front</p>"),
        ("/sub/", "text/html; charset=utf-8", "<p>sub</p>"),
        ("/sub/deep/a%20b.mjs", "text/javascript; charset=utf-8", "export {}"),
        ("/app.js", "text/javascript; charset=utf-8", "1"),
        ("/style.css", "text/css; charset=utf-8", "a{}"),
        ("/m.wasm", "application/wasm", "\0asm"),
        ("/app.js.map", "application/json", "{}"),
        ("/i.svg", "image/svg+xml", "<svg/>"),
        ("/i.png", "image/png", "png"),
        ("/data", "application/octet-stream", "plain"),
        ("/get/shown.json", "application/json", "{}"),
    ] {
        let answer = get(&served, path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        assert_eq!(answer.header("content-type"), Some(kind), "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.text(), content, "{path}");
    }
    let answer = served.ask("HEAD /app.js", b"");
    assert_eq!(
        (answer.status, answer.header("content-length"), answer.bytes()),
        (200, Some("1"), &b""[..])
    );
}

#[test]
fn a_path_without_a_file_is_a_command_or_not_found() {
    let folder = Folder::make("commands");
    let served = folder.serve(&[]);
    assert_eq!(get(&served, "/set/app.js/x").json()["result"], "OK");
    assert_eq!(get(&served, "/get/app.js").json()["result"], "x");
    assert_eq!(get(&served, "/GET/app.js").json()["result"], "x");
    // A file comes before a command of the same path, but only for GET.
    assert_eq!(
        served.ask("POST /get/shown.json", b"").json()["result"],
        serde_json::Value::Null
    );
    for path in ["/favicon.ico", "/nosuch", "/sub", "/nosuch/index.html", "/%ff"] {
        let answer = get(&served, path);
        assert_eq!(answer.status, 404, "{path}");
        assert_eq!(answer.error(), "ERR there is no such file, and no such command");
    }
    assert_eq!(served.ask("POST /nosuch", b"").status, 400);
}

#[test]
fn files_outside_the_folder_are_not_served() {
    let folder = Folder::make("beside");
    #[cfg(unix)]
    for (link, target) in [
        ("out.txt", folder.0.join("beside.txt")),
        ("up", folder.0.clone()),
        ("in.js", folder.root().join("app.js")),
    ] {
        std::os::unix::fs::symlink(target, folder.root().join(link)).unwrap();
    }
    let served = folder.serve(&[]);
    for path in [
        "/../beside.txt",
        "/%2e%2e/beside.txt",
        "/..%2fbeside.txt",
        "/%2e%2e%2fbeside.txt",
        "/sub/../../beside.txt",
        "/sub/..%5c..%5cbeside.txt",
        "/sub/./index.html",
        "//beside.txt",
        "/sub//index.html",
        "//etc/passwd",
        "/%2fetc%2fpasswd",
        "/etc/passwd",
        "/.hidden",
        "/%2ehidden",
        "/app.js%00.html",
        "/app.js/",
        "/out.txt",
        "/up/beside.txt",
        "/up/",
    ] {
        let answer = get(&served, path);
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
    }
    #[cfg(unix)]
    assert_eq!(get(&served, "/in.js").text(), "1");
}

#[test]
fn files_need_no_token_and_their_pages_are_of_the_same_origin() {
    let folder = Folder::make("token");
    let file = secret("files-token", "s3cret");
    let served = folder.serve(&["--http-token-file", &file]);
    assert_eq!(get(&served, "/app.js").status, 200);
    assert_eq!(get(&served, "/get/k").status, 401);
    let own = format!("Origin: http://localhost:{0}\nHost: localhost:{0}", served.http);
    let answer = served.ask(&format!("POST /?_token=s3cret\n{own}"), b"[\"PING\"]");
    assert_eq!(answer.status, 200);
    // If a user follows a link from another site, the browser requests only the page itself.
    let link = "Sec-Fetch-Site: cross-site\nSec-Fetch-Dest: document";
    assert_eq!(served.ask(&format!("GET /\n{link}"), b"").status, 200);
    assert_eq!(served.ask(&format!("GET /ping?_token=s3cret\n{link}"), b"").status, 403);
    let embedded = "Sec-Fetch-Site: cross-site\nSec-Fetch-Dest: script";
    assert_eq!(served.ask(&format!("GET /app.js\n{embedded}"), b"").status, 403);
    assert_eq!(served.ask("GET /app.js\nOrigin: http://evil.example", b"").status, 403);
}
