//! Makes the linker mark the library so that it stays in the process once it is loaded.

fn main() {
    // When the JVM unloads a class loader, it unloads the loader's native libraries too. A thread
    // of this library may still run then, so its code must stay in memory.
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
