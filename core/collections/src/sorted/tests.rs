//! Comparisons with the tree of the standard library.

use std::collections::BTreeMap;

use super::slots::{JOIN_LIMIT, MAX_RUN, Run};
use super::*;

fn check(map: &SortedMap<u64, u64>, tree: &BTreeMap<u64, u64>) {
    assert!(map.iter().eq(tree.iter()));
    assert_eq!((map.len(), map.is_empty()), (tree.len(), tree.is_empty()));
    let runs = map.slots.runs();
    assert!(runs.len() <= 1 || runs.iter().all(|run| !run.is_empty()));
    let few = |pair: &[Run<u64>]| pair.iter().map(Vec::len).sum::<usize>() <= JOIN_LIMIT;
    assert!(!runs.windows(2).any(few));
}

#[test]
fn a_map_behaves_like_a_tree() {
    for keys in [8, 300, 3_000] {
        let (mut map, mut tree, mut drawn) = (SortedMap::new(), BTreeMap::new(), 1_u64);
        let mut random = |bound: u64| {
            drawn = drawn * 48_271 % 2_147_483_647;
            drawn % bound
        };
        for step in 0..20_000 {
            let key = random(keys);
            match random(9) {
                // The map grows in the first half of the steps, and shrinks in the second.
                action if action < 3 || (action < 6 && step < 10_000) => {
                    assert_eq!(map.insert(key, step), tree.insert(key, step));
                }
                6 => {
                    assert_eq!(map.get(&key), tree.get(&key));
                    assert_eq!(map.first_from(&key), tree.range(key..).next().map(|(key, _)| key));
                }
                7 => {
                    *map.get_or_default(key) += 1;
                    *tree.entry(key).or_default() += 1;
                }
                _ => assert_eq!(map.remove(&key), tree.remove(&key)),
            }
            if step % 16 == 0 {
                check(&map, &tree);
            }
        }
        map.iter_mut().for_each(|(key, value)| *value = *key + 1);
        tree.iter_mut().for_each(|(key, value)| *value = *key + 1);
        map.retain(|key, value| key % 3 == 0 && *value % 2 == 0);
        tree.retain(|key, value| key % 3 == 0 && *value % 2 == 0);
        check(&map, &tree);
        assert!(map.into_iter().eq(tree));
    }
}

#[test]
fn keys_inserted_in_order_fill_the_runs() {
    let map: SortedMap<u64, ()> = (0..1_000).map(|key| (key, ())).collect();
    assert_eq!(map.slots.runs().len(), 1_000_usize.div_ceil(MAX_RUN));
}

/// The oldest keys are removed first, as when leases expire; then the newest first; then those in the middle.
#[test]
fn the_other_keys_are_found_while_many_are_removed() {
    const MANY: u64 = 5 * MAX_RUN as u64;
    let orders: [fn(u64) -> u64; 3] = [|at| at, |at| MANY - 1 - at, |at| (at + MANY / 2) % MANY];
    for order in orders {
        let (mut map, mut tree) = (SortedMap::new(), BTreeMap::new());
        for key in 0..MANY {
            map.insert(key, key);
            tree.insert(key, key);
        }
        for at in 0..MANY {
            assert_eq!(map.remove(&order(at)), tree.remove(&order(at)));
            check(&map, &tree);
            assert!((0..MANY).all(|key| map.get(&key) == tree.get(&key)));
        }
    }
}

#[test]
fn the_slots_of_removed_keys_are_reused() {
    let mut map = SortedMap::new();
    for key in 0..100_000_u64 {
        map.insert(key, key);
        // One key of a hundred stays.
        if key >= 50 && (key - 50) % 100 != 0 {
            map.remove(&(key - 50));
        }
    }
    assert!(map.len() <= 1_050 && map.values.len() <= 1_100);
    assert!(
        map.slots.runs().len() <= 1 + 2 * map.len() / JOIN_LIMIT,
        "{}",
        map.slots.runs().len()
    );
}

#[test]
fn a_set_has_each_key_once_and_in_order() {
    let mut set: SortedSet<u64> = [3, 1, 2, 3].into_iter().collect();
    assert_eq!(
        (set.insert(2), set.insert(9), set.remove(&1), set.remove(&1)),
        (false, true, true, false)
    );
    assert!(set.contains(&9) && !set.contains(&1));
    assert!(set.iter().eq([&2, &3, &9]));
    assert!(set.into_iter().eq([2, 3, 9]));
}
