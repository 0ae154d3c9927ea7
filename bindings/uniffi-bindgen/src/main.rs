//! uniffi's generator: it reads the built library and writes Kotlin that calls it.

fn main() {
    uniffi::uniffi_bindgen_main();
}
