//! An `addressMap` that is a function of JavaScript.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use napi::Status;
use napi::bindgen_prelude::Function;
use napi::threadsafe_function::ThreadsafeFunctionCallMode;
use napi_derive::napi;
use steadlock::host::AddressMap;

use crate::until_closed::{Drops, UntilClosed};

/// What the function said.
#[napi(object, object_to_js = false)]
pub struct NativeReached {
    /// Left out for "as it is announced".
    pub address: Option<String>,
    /// Why it said nothing.
    pub failure: Option<String>,
}

/// How often a thread that waits for JavaScript looks whether JavaScript is still there.
const LOOK: Duration = Duration::from_millis(50);

/// The core calls it on a thread that has nothing else to do and waits there for JavaScript's.
pub(crate) fn map(function: Function<'_, String, NativeReached>) -> napi::Result<(AddressMap, Box<dyn Drops>)> {
    let function = function
        .build_threadsafe_function::<String>()
        .weak::<true>()
        .callee_handled::<false>()
        .build()?;
    let function = UntilClosed::new(function);
    let until_closed = Box::new(function.clone());
    let map = AddressMap::by_fallible(move |announced| {
        let Some(function) = function.get() else {
            return Err("the client is closed".into());
        };
        let (tell, told) = mpsc::channel();
        let status = function.call_with_return_value(
            announced.to_owned(),
            ThreadsafeFunctionCallMode::NonBlocking,
            move |said: napi::Result<NativeReached>, _| {
                // Refused only if nobody waits any more.
                let _ = tell.send(said);
                Ok(())
            },
        );
        if status != Status::Ok {
            return Err("JavaScript is ending".into());
        }
        loop {
            return match told.recv_timeout(LOOK) {
                Ok(Ok(NativeReached { failure: None, address })) => Ok(address),
                Ok(Ok(NativeReached { failure: Some(why), .. })) => Err(why),
                Ok(Err(_)) => Err("it gave what cannot be read".into()),
                // A call that JavaScript has not begun when it ends is neither made nor dropped.
                Err(RecvTimeoutError::Timeout) if !function.aborted() => continue,
                Err(_) => Err("JavaScript is ending".into()),
            };
        }
    });
    Ok((map, until_closed))
}
