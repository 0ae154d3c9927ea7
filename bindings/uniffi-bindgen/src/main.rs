//! The code generator of uniffi: reads the built library and writes the Kotlin code that calls its
//! functions.

#![warn(clippy::too_many_lines)]

fn main() {
    uniffi::uniffi_bindgen_main();
}
