//! Has the library stay in the process once it was loaded.

fn main() {
    // A class loader that is unloaded unloads its native libraries, while a thread of this one may still be on its way
    // to its end.
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
