//! A store as a node of a cluster: sharded channels, and slots that are moving.

use steadlock_store::{Reply, ServerTime, SlotMigration, Store, SubscriberId};

const NOW: ServerTime = ServerTime::from_micros(1_795_000_000_000_000);

#[test]
fn sharded_channels_are_separate_from_the_others() {
    let mut store = Store::new();
    let (plain, sharded) = (SubscriberId(1), SubscriberId(2));
    assert!(store.subscribe(plain, b"news"));
    assert!(store.ssubscribe(sharded, b"news"));
    for (command, to) in [("PUBLISH", plain), ("SPUBLISH", sharded)] {
        assert_eq!(store.execute(&[command, "news", "x"], NOW), Reply::Int(1));
        let deliveries = store.take_deliveries();
        assert_eq!(deliveries.len(), 1, "{command}");
        assert_eq!(deliveries[0].subscriber, to, "{command}");
        assert_eq!(deliveries[0].is_sharded, to == sharded, "{command}");
    }
    assert!(!store.unsubscribe(sharded, b"news"));
    assert!(store.sunsubscribe(sharded, b"news"));
    assert_eq!(store.execute(&["SPUBLISH", "news", "x"], NOW), Reply::Int(0));
}

#[test]
fn a_script_that_accesses_a_migrated_key_is_stopped() {
    for (slot_migration, script, is_stopped) in [
        (SlotMigration::None, "return redis.call('EXISTS', KEYS[1])", false),
        (SlotMigration::Migrating, "return redis.call('EXISTS', KEYS[1])", true),
        (SlotMigration::Migrating, "return redis.call('EXISTS', KEYS[2])", false),
        (
            SlotMigration::Migrating,
            "return redis.call('SPUBLISH', KEYS[1], 'x')",
            false,
        ),
        (SlotMigration::Importing, "return redis.call('EXISTS', KEYS[1])", false),
        (
            SlotMigration::Importing,
            "return redis.call('EXISTS', KEYS[1], KEYS[2])",
            true,
        ),
    ] {
        let mut store = Store::new();
        store.execute(&["MSET", "a", "1", "b", "1"], NOW);
        store.set_slot_migration(slot_migration);
        let script = format!("redis.call('DEL', KEYS[1])\n{script}");
        let reply = store.execute(&["EVAL", &script, "2", "a", "b"], NOW);
        let text = format!("{reply:?}");
        assert_eq!(
            text.contains("attempted to access a non local key"),
            is_stopped,
            "{slot_migration:?}: {text}"
        );
        // The writes that the script has made stay.
        assert_eq!(store.execute(&["EXISTS", "a"], NOW), Reply::Int(0));
    }
}
