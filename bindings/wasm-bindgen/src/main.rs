//! The code generator of wasm-bindgen: reads the built module and writes the JavaScript code that calls its functions.
//!
//!     steadlock-wasm-bindgen MODULE FOLDER

#![warn(clippy::too_many_lines)]

use std::env::args_os;

use anyhow::{Context as _, Result};
use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<()> {
    let mut words = args_os().skip(1);
    let module = words.next().context("the path of a module is missing")?;
    let folder = words.next().context("a folder is missing")?;
    Bindgen::new()
        .input_path(module)
        .out_name("glue")
        .web(true)?
        .typescript(true)
        .omit_default_module_path(false)
        .generate(folder)
}
