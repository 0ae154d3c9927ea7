//! Serves the files of `--http-root`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use steadlock_store::server::{ClientMemory, ExternalClient};

/// The folder whose files are served.
pub(crate) struct Root(PathBuf);

/// The bytes of a file, counted towards the memory limit.
pub(super) struct ServedFile {
    pub(super) bytes: Vec<u8>,
    pub(super) content_type: &'static str,
    pub(super) memory: ClientMemory,
}

/// The reason why a file is not served.
pub(super) enum NotServed {
    /// There is no such file, or it must not or cannot be read.
    Missing,
    /// The file does not fit into the memory limit now.
    TooLarge,
}

impl Root {
    /// Opens the folder of `--http-root`.
    pub(crate) fn open(folder: &Path) -> std::io::Result<Self> {
        let folder = folder.canonicalize()?;
        if !folder.is_dir() {
            return Err(std::io::ErrorKind::NotADirectory.into());
        }
        Ok(Self(folder))
    }

    /// Reads the file at a path. A path that is empty or ends with a slash stands for the `index.html` of its folder.
    pub(super) fn read(&self, segments: &[Vec<u8>], client: &ExternalClient) -> Result<ServedFile, NotServed> {
        let path = self.find(segments).ok_or(NotServed::Missing)?;
        let content_type = content_type(&path);
        let read = |path: &Path| {
            let mut file = File::open(path)?;
            let length = file.metadata()?.len();
            let mut memory = client.memory();
            let length = usize::try_from(length).ok().filter(|length| memory.set(*length));
            let Some(length) = length else { return Ok(None) };
            let mut bytes = vec![0; length];
            file.read_exact(&mut bytes)?;
            Ok::<_, std::io::Error>(Some(ServedFile {
                bytes,
                content_type,
                memory,
            }))
        };
        match read(&path) {
            Ok(served) => served.ok_or(NotServed::TooLarge),
            Err(_) => Err(NotServed::Missing),
        }
    }

    /// Finds a file below the folder. Hidden files, and files outside the folder that a link leads to, are not found.
    fn find(&self, segments: &[Vec<u8>]) -> Option<PathBuf> {
        let (last, folders) = match segments {
            [folders @ .., last] if !last.is_empty() => (safe_name(last)?, folders),
            [folders @ .., _] => ("index.html", folders),
            [] => ("index.html", segments),
        };
        let mut path = self.0.clone();
        for folder in folders {
            path.push(safe_name(folder)?);
        }
        path.push(last);
        let path = path.canonicalize().ok()?;
        (path.starts_with(&self.0) && path.is_file()).then_some(path)
    }
}

/// Returns the segment as the name of a file or folder, if it is not hidden and has no special meaning on any system.
fn safe_name(segment: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(segment).ok()?;
    let is_safe = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', ':', '\0']);
    is_safe.then_some(name)
}

/// Returns the content type for a file's extension.
fn content_type(path: &Path) -> &'static str {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    match ending.to_ascii_lowercase().as_str() {
        "html" | "htm" => "text/html; charset=utf-8",
        "js" | "mjs" | "cjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "txt" | "md" => "text/plain; charset=utf-8",
        "json" | "map" => "application/json",
        "wasm" => "application/wasm",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}
