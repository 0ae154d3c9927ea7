//! Tells the linker on macOS that the symbols of Python stay undefined until a process loads the module.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
