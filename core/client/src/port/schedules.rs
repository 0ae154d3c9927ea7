use std::sync::Arc;

use loom::thread::spawn;

use super::{Completion, Event, Port};
use crate::schedules::in_every_schedule;
use crate::sync::thread::{current, park};

fn event(request: u64) -> Event {
    let result = Ok(Completion::Extended);
    Event::Completed { request, result }
}

#[test]
fn a_host_that_drains_when_it_is_woken_receives_every_event() {
    in_every_schedule(|| {
        let host = current();
        let (port, _commands) = Port::open(0, Some(Arc::new(move || host.unpark())), None);
        let port = Arc::new(port);
        let publishers = [1, 2].map(|request| {
            let port = Arc::clone(&port);
            spawn(move || port.publish(&mut vec![event(request)]))
        });
        let mut events = Vec::new();
        port.drain(&mut events);
        while events.len() < 2 {
            park();
            port.drain(&mut events);
        }
        for publisher in publishers {
            publisher.join().unwrap();
        }
        port.drain(&mut events);
        assert_eq!(events.len(), 2, "each arrives once");
    });
}

#[test]
fn an_event_of_a_cancelled_request_is_drained_or_taken_out_once() {
    in_every_schedule(|| {
        let (port, _commands) = Port::open(0, Some(Arc::new(|| {})), None);
        port.publish(&mut vec![event(1)]);
        let port = Arc::new(port);
        let cancelling = Arc::clone(&port);
        let cancelling = spawn(move || usize::from(cancelling.take_event(1).is_some()));
        let publishing = Arc::clone(&port);
        let publishing = spawn(move || publishing.publish(&mut vec![event(2)]));
        let mut drained = Vec::new();
        port.drain(&mut drained);
        let taken_out = cancelling.join().unwrap();
        publishing.join().unwrap();
        port.drain(&mut drained);
        assert_eq!(drained.len() + taken_out, 2);
        let is_other = |event: &Event| matches!(event, Event::Completed { request: 2, .. });
        assert!(drained.iter().any(is_other), "the other event stays");
    });
}
