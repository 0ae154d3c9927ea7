use super::*;

fn memory() -> Options {
    Options {
        url: Some("memory://".into()),
        ..Options::default()
    }
}

fn refusal(options: Options) -> ErrorKind {
    Settings::check(options).err().unwrap().kind()
}

#[test]
fn without_options_every_setting_has_its_default() {
    let settings = Settings::check(memory()).unwrap();
    assert_eq!(settings.lease.get(), Duration::from_secs(30));
    assert_eq!(settings.command_timeout, Duration::from_secs(3));
    assert_eq!(settings.connect_timeout, Duration::from_secs(5));
    assert_eq!(settings.retry_interval, Config::RETRY_INTERVAL);
    assert!(!settings.lazy);
}

#[test]
fn lease_lengths_out_of_range_are_refused() {
    for ms in [0.0, -1.0, 299.9, 86_400_001.0, f64::NAN, f64::INFINITY] {
        let options = Options {
            lease_ms: Some(ms),
            ..memory()
        };
        assert_eq!(refusal(options), ErrorKind::InvalidArgument, "{ms}");
    }
}

#[test]
fn timeouts_out_of_range_are_refused() {
    for ms in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let options = Options {
            command_timeout_ms: Some(ms),
            ..memory()
        };
        assert_eq!(refusal(options), ErrorKind::InvalidArgument, "{ms}");
        let options = Options {
            connect_timeout_ms: Some(ms),
            ..memory()
        };
        assert_eq!(refusal(options), ErrorKind::InvalidArgument, "{ms}");
    }
    let options = Options {
        retry_interval_ms: Some((750.0, 500.0)),
        ..memory()
    };
    assert_eq!(refusal(options), ErrorKind::InvalidArgument);
}

#[test]
fn numbers_of_groups_out_of_range_and_groups_without_metrics_are_refused() {
    for number in [0.0, -1.0, 1.5, 10_001.0, f64::NAN, f64::INFINITY] {
        let options = Options {
            metrics: Some(true),
            metrics_groups: Some(number),
            ..memory()
        };
        assert_eq!(refusal(options), ErrorKind::InvalidArgument, "{number}");
    }
    let options = Options {
        metrics_groups: Some(10.0),
        ..memory()
    };
    assert_eq!(refusal(options), ErrorKind::InvalidArgument);
    let options = Options {
        metrics: Some(true),
        metrics_groups: Some(10_000.0),
        ..memory()
    };
    assert_eq!(Settings::check(options).unwrap().metrics.unwrap().max_groups, 10_000);
}

#[test]
fn the_prefix_precedes_the_name_and_is_checked_with_it() {
    let settings = Settings::check(Options {
        key_prefix: Some("shop:".into()),
        ..memory()
    })
    .unwrap();
    let name = settings.lock_name("stock").unwrap();
    assert_eq!(name.as_str(), "shop:stock");
    assert_eq!(settings.without_prefix(name.as_str()), "stock");
    assert!(settings.lock_name("").is_err());
    assert!(settings.lock_name(&"n".repeat(508)).is_err());
}
