//! An `addressMap` that is a JavaScript function.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use napi::Status;
use napi::bindgen_prelude::Function;
use napi::threadsafe_function::ThreadsafeFunctionCallMode;
use napi_derive::napi;
use steadlock::host::AddressMap;

use crate::until_closed::{DropValue, UntilClosed};

/// The result of the function of an address map.
#[napi(object, object_to_js = false)]
pub struct NativeReached {
    /// The address to use; left out for the announced one.
    pub address: Option<String>,
    /// The reason why the function gave no address.
    pub failure: Option<String>,
}

/// How often a thread that waits for JavaScript checks whether JavaScript has ended.
const END_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// An address map, and the JavaScript function that it calls.
pub(crate) struct FunctionMap {
    pub(crate) map: AddressMap,
    pub(crate) function: Box<dyn DropValue>,
}

/// Makes an address map of a JavaScript function. The core calls the map on a thread of its own, which can wait for
/// JavaScript's thread.
pub(crate) fn map(function: Function<'_, String, NativeReached>) -> napi::Result<FunctionMap> {
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
        let (sender, receiver) = mpsc::channel();
        let status = function.call_with_return_value(
            announced.to_owned(),
            ThreadsafeFunctionCallMode::NonBlocking,
            move |result: napi::Result<NativeReached>, _| {
                // Fails only if the core's thread does not wait any more.
                let _ = sender.send(result);
                Ok(())
            },
        );
        if status != Status::Ok {
            return Err("JavaScript is ending".into());
        }
        loop {
            return match receiver.recv_timeout(END_CHECK_INTERVAL) {
                Ok(Ok(NativeReached { failure: None, address })) => Ok(address),
                Ok(Ok(NativeReached { failure: Some(why), .. })) => Err(why),
                Ok(Err(_)) => Err("it gave what cannot be read".into()),
                // If JavaScript ends before it has begun the call, the call is neither made nor dropped. Only the check
                // of `aborted` ends the wait then.
                Err(RecvTimeoutError::Timeout) if !function.aborted() => continue,
                Err(_) => Err("JavaScript is ending".into()),
            };
        }
    });
    Ok(FunctionMap {
        map,
        function: until_closed,
    })
}
