//! On macOS a module leaves Python's symbols to the process that loads it, which its linker must be told.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
