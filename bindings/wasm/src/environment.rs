//! The clocks and the random numbers of JavaScript, for the core.

use steadlock::host::Environment;
use wasm_bindgen::prelude::wasm_bindgen;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = performance, js_name = now)]
    fn steady_ms() -> f64;

    #[wasm_bindgen(js_namespace = Date, js_name = now)]
    fn wall_ms() -> f64;

    #[wasm_bindgen(js_namespace = crypto, js_name = getRandomValues)]
    fn fill(bytes: &mut [u8]);
}

/// Gives the clocks and the random numbers to the core. Runs when the module is loaded.
#[wasm_bindgen(start)]
fn start() {
    steadlock::host::provide(Environment {
        steady_micros: || (steady_ms() * 1e3) as u64,
        wall_micros: || (wall_ms() * 1e3) as i64,
        random: || {
            let mut bytes = [0; 8];
            fill(&mut bytes);
            u64::from_ne_bytes(bytes)
        },
    });
}
