//! Tells the linker that Node's symbols stay undefined until Node loads the library.

fn main() {
    napi_build::setup();
}
