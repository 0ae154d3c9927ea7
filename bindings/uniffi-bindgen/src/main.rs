//! uniffi's generator: it reads the built library and writes Kotlin that calls it.

#![warn(clippy::too_many_lines)]

fn main() {
    uniffi::uniffi_bindgen_main();
}
