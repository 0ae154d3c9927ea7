use std::sync::Arc;
use std::time::Duration;

use steadlock_protocol::{ErrorKind, LostReason};

use super::{GroupBy, Grouping, Groups, Metrics, Outcome};

fn groups(max_groups: usize) -> (Arc<Metrics>, Groups) {
    let metrics = Arc::new(Metrics::default());
    (
        Arc::clone(&metrics),
        Groups::new(
            metrics,
            Grouping {
                function: None,
                max_groups,
            },
        ),
    )
}

/// Returns the number at the end of the line that begins with `start`.
fn number<'a>(text: &'a str, start: &str) -> &'a str {
    let line = text.lines().find(|line| line.starts_with(start));
    line.and_then(|line| line.rsplit(' ').next())
        .unwrap_or("there is no such line")
}

#[test]
fn the_group_of_a_name_is_the_part_before_its_first_colon() {
    let (_, mut groups) = groups(100);
    for (name, group) in [
        ("stock:42", "stock"),
        ("stock:42:eu", "stock"),
        ("report", "none"),
        (":odd", "none"),
        ("none:1", "none"),
        ("other:1", "other"),
        ("https://user:secret@host/", "https"),
    ] {
        let series = groups.series("lock", name);
        assert_eq!((&**series.group(), series.kind()), (group, "lock"), "{name}");
    }
}

#[test]
fn a_job_and_a_leader_without_a_colon_in_their_names_are_groups_of_their_own() {
    let (_, mut groups) = groups(100);
    for (kind, name, group) in [
        ("once", "nightly", "nightly"),
        ("leader", "mailer", "mailer"),
        ("once", "report:eu", "report"),
        ("lock", "nightly", "none"),
    ] {
        assert_eq!(&**groups.series(kind, name).group(), group, "{name}");
    }
}

#[test]
fn a_function_names_the_group_and_its_panic_counts_as_other() {
    let function = GroupBy::new(|name| match name {
        "panic" => panic!("a defect of the function"),
        "url" => "redis://user:secret@host".into(),
        "long" => "ä".repeat(1_000),
        name => name.to_uppercase(),
    });
    let mut groups = Groups::new(
        Arc::new(Metrics::default()),
        Grouping {
            function: Some(function),
            ..Grouping::default()
        },
    );
    let mut group = |name| groups.series("lock", name).group().to_string();
    assert_eq!(group("panic"), "other");
    assert_eq!(group("url"), "redis://…@host");
    assert_eq!(group("long"), "ä".repeat(64));
    assert_eq!(group("a"), "A");
    assert_eq!(group(""), "none");
}

#[test]
fn groups_beyond_the_limit_count_as_other() {
    let (metrics, mut groups) = groups(2);
    for name in ["a:1", "b:1", "c:1", "d:1", "a:2", "no colon"] {
        groups.series("lock", name).wait_began();
    }
    let text = metrics.text();
    for (group, waiting) in [("a", "2"), ("b", "1"), ("other", "2"), ("none", "1")] {
        let start = format!("steadlock_waiting{{kind=\"lock\",group=\"{group}\"}}");
        assert_eq!(number(&text, &start), waiting, "{group}");
    }
}

#[test]
fn the_label_for_other_meters_is_the_group_that_a_lock_counts_for() {
    let (metrics, mut groups) = groups(2);
    let grouping = Grouping {
        function: None,
        max_groups: 2,
    };
    let label = |name| grouping.label(&metrics, name);
    assert_eq!(&*label("early:1"), "early");
    for name in ["a:1", "b:1", "c:1", "no colon"] {
        groups.series("lock", name);
    }
    for name in ["a:7", "b:7", "c:7", "d:7", "report", ":odd", "other:1"] {
        assert_eq!(*label(name), **groups.series("lock", name).group(), "{name}");
    }
}

#[test]
fn a_hundred_thousand_groups_need_no_more_memory_than_the_limit() {
    let (metrics, mut groups) = groups(100);
    for number in 0..100_000 {
        let series = groups.series("lock", &format!("group-{number}:x"));
        series.wait_began();
        series.wait_ended(Outcome::Granted, Duration::ZERO);
    }
    let text = metrics.text();
    let series = text.lines().filter(|line| line.starts_with("steadlock_held{")).count();
    assert_eq!(series, 101, "the limit, and `other`");
    assert_eq!(
        number(&text, "steadlock_held{kind=\"lock\",group=\"other\"}"),
        (100_000 - 100).to_string()
    );
    assert!(text.len() < 1_000_000, "{} bytes", text.len());
}

#[test]
fn labels_cannot_break_out_of_their_quotes() {
    let (metrics, mut groups) = groups(100);
    groups.series("lock", "a\"} 1\nb\\:1").wait_began();
    let text = metrics.text();
    assert_eq!(
        number(&text, "steadlock_waiting{kind=\"lock\",group=\"a\\\"} 1\\nb\\\\\"}"),
        "1",
        "{text}"
    );
}

#[test]
fn a_bucket_counts_its_bound_and_all_shorter_times() {
    let (metrics, mut groups) = groups(100);
    let series = groups.series("lock", "a:1");
    for micros in [0, 1_000, 1_001, 3_600_000_000, 3_600_000_001] {
        series.wait_began();
        series.wait_ended(Outcome::Granted, Duration::from_micros(micros));
    }
    let text = metrics.text();
    for (bound, count) in [
        ("0.001", "2"),
        ("0.0025", "3"),
        ("600", "3"),
        ("3600", "4"),
        ("+Inf", "5"),
    ] {
        let start = format!("steadlock_wait_seconds_bucket{{kind=\"lock\",group=\"a\",le=\"{bound}\"}}");
        assert_eq!(number(&text, &start), count, "{bound}");
    }
    assert_eq!(
        number(&text, "steadlock_wait_seconds_count{kind=\"lock\",group=\"a\"}"),
        "5"
    );
    assert_eq!(
        number(&text, "steadlock_wait_seconds_sum{kind=\"lock\",group=\"a\"}"),
        "7200.002002"
    );
}

#[test]
fn the_row_of_a_histogram_has_the_number_and_the_sum_of_its_times() {
    let (metrics, mut groups) = groups(100);
    let series = groups.series("lock", "a:1");
    for micros in [1_000, 7_200_000_001] {
        series.wait_began();
        series.wait_ended(Outcome::TimedOut, Duration::from_micros(micros));
    }
    let metrics = metrics.rows();
    let wait = metrics
        .iter()
        .find(|metric| metric.family.otel_name == "steadlock.wait.duration")
        .unwrap();
    assert_eq!(wait.family.bounds()[..3], [0.001, 0.0025, 0.005]);
    let [row] = &wait.rows[..] else {
        panic!("one series: {:?}", wait.rows)
    };
    assert_eq!(row.labels, [("kind", "lock".into()), ("group", "a".into())]);
    assert_eq!(row.number, 2);
    assert_eq!(row.times.as_ref().unwrap().seconds(), 7200.001001);
    let held = metrics
        .iter()
        .find(|metric| metric.family.name == "steadlock_held")
        .unwrap();
    assert!(held.family.bounds().is_empty() && held.rows[0].times.is_none());
}

#[test]
fn each_error_and_each_loss_has_its_word() {
    let (metrics, mut groups) = groups(100);
    let series = groups.series("lock", "a:1");
    for kind in ErrorKind::ALL {
        series.wait_began();
        series.wait_ended(Outcome::of(kind), Duration::ZERO);
    }
    for reason in LostReason::ALL {
        series.wait_began();
        series.wait_ended(Outcome::Granted, Duration::ZERO);
        series.lost(reason, Duration::from_secs(1));
    }
    let text = metrics.text();
    for (outcome, count) in [
        ("granted", "5"),
        ("timed_out", "1"),
        ("cancelled", "1"),
        ("unavailable", "1"),
        ("misconfigured", "1"),
        ("refused", "3"),
        ("lost", "1"),
        ("closed", "1"),
    ] {
        let start = format!("steadlock_acquisitions_total{{kind=\"lock\",group=\"a\",outcome=\"{outcome}\"}}");
        assert_eq!(number(&text, &start), count, "{outcome}");
    }
    for reason in LostReason::ALL {
        let start = format!(
            "steadlock_losses_total{{kind=\"lock\",group=\"a\",reason=\"{}\"}}",
            reason.as_str()
        );
        assert_eq!(number(&text, &start), "1", "{reason:?}");
    }
    for gauge in ["steadlock_held", "steadlock_waiting"] {
        assert_eq!(number(&text, &format!("{gauge}{{")), "0", "{gauge}");
    }
    assert_eq!(number(&text, "steadlock_hold_seconds_sum{"), "5");
}

#[test]
fn before_the_first_lock_every_metric_has_its_header() {
    let text = Metrics::default().text();
    let headers = |word: &str| text.lines().filter(|line| line.starts_with(word)).count();
    assert_eq!((headers("# HELP steadlock_"), headers("# TYPE steadlock_")), (15, 15));
    assert_eq!(number(&text, "steadlock_reconnects_total{link=\"calls\"}"), "0");
    assert!(text.ends_with('\n'));
}
