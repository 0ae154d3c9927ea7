//! Observed events in the form for JavaScript.

use std::collections::HashMap;

use napi::bindgen_prelude::Either;
use napi_derive::napi;
use steadlock::host::{Field, Line};
use steadlock_javascript::spelled;

/// An event for the program's listeners: one sentence, and its facts as named fields.
#[napi(object, object_from_js = false)]
pub struct NativeObservation {
    pub level: String,
    pub message: String,
    pub fields: HashMap<String, Either<String, f64>>,
}

impl From<&Line> for NativeObservation {
    fn from(line: &Line) -> Self {
        let fields = line.fields().into_iter().map(|(name, field)| {
            let value = match field {
                Field::Text(text) => Either::A(text),
                Field::Number(number) => Either::B(number as f64),
            };
            (name.to_owned(), value)
        });
        Self {
            level: line.level().as_str().to_owned(),
            message: spelled(&line.to_string()).into_owned(),
            fields: fields.collect(),
        }
    }
}
