//! Certificates for one test. Each test makes its own, so no certificate in the repository can expire.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A certificate authority, and a folder for the certificates that it signs.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: PathBuf,
}

/// A certificate and its key, as files.
#[derive(Clone)]
pub struct Pair {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// When a certificate is valid: now, only in the past, or only in the future.
#[derive(Clone, Copy)]
pub enum Valid {
    Now,
    Before,
    Later,
}

impl Authority {
    pub fn new() -> Self {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("steadlock-certificates-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let key = KeyPair::generate().expect("a key");
        let mut params = params(&[], Valid::Now);
        params
            .distinguished_name
            .push(DnType::CommonName, format!("authority {number}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate");
        write(&folder, "ca.pem", &certificate.pem());
        write(&folder, "ca.key", &key.serialize_pem());
        Self {
            issuer: Issuer::new(params, key),
            folder,
        }
    }

    /// Returns the file with the authority's own certificate.
    pub fn file(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// Returns the authority's own certificate, for a server that uses it as its certificate.
    pub fn own(&self) -> Pair {
        Pair {
            cert: self.file(),
            key: self.folder.join("ca.key"),
        }
    }

    /// Signs a certificate for these hosts.
    pub fn sign(&self, hosts: &[&str], valid: Valid) -> Pair {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let key = KeyPair::generate().expect("a key");
        let mut params = params(hosts, valid);
        params
            .distinguished_name
            .push(DnType::CommonName, format!("leaf {number}"));
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Pair {
            cert: write(&self.folder, &format!("{number}.pem"), &certificate.pem()),
            key: write(&self.folder, &format!("{number}.key"), &key.serialize_pem()),
        }
    }

    /// Signs a certificate for this machine.
    pub fn here(&self) -> Pair {
        self.sign(&["localhost", "127.0.0.1"], Valid::Now)
    }

    /// Writes a file into the folder and returns its path.
    pub fn write(&self, name: &str, content: &str) -> PathBuf {
        write(&self.folder, name, content)
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn params(hosts: &[&str], valid: Valid) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts).expect("names of hosts");
    let (from, to) = match valid {
        Valid::Now => (2000, 2400),
        Valid::Before => (2000, 2001),
        Valid::Later => (2300, 2400),
    };
    params.not_before = date_time_ymd(from, 1, 1);
    params.not_after = date_time_ymd(to, 1, 1);
    params
}

fn write(folder: &Path, name: &str, content: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, content).expect("a file");
    path
}
