//! Defects that other lock libraries had. A switch reproduces each of them, and a check finds it.
//!
//! A check is a short story in virtual time. It passes on the real code and fails with the defect switched on, in the
//! same build, because a check that cannot fail proves nothing. `cargo test --package steadlock-defects --test
//! known_defects -- --nocapture` prints what each check found.

mod composite;
mod fair;
mod known;
mod leases;
mod owners;
mod renewing;
mod waiting;
mod world;

use steadlock_protocol::defects::Defect;

use crate::known::{Known, Switch};

/// Lists each known defect once: for the list of all, and as a test.
macro_rules! known_defects {
    ($($name:ident => $known:path,)*) => {
        const ALL: &[(&str, &Known)] = &[$((stringify!($name), &$known),)*];

        $(
            #[test]
            fn $name() {
                for complaint in $known.prove().unwrap() {
                    println!("{}: {complaint}", $known.what);
                }
            }
        )*
    };
}

known_defects! {
    double_hold_after_a_resent_acquire_is_found => owners::DOUBLE_HOLD,
    stall_after_a_lost_message_is_found => waiting::STALL,
    semaphore_waiter_parked_for_ever_is_found => waiting::PARKED,
    attempt_that_is_refused_although_there_is_room_is_found => waiting::ROOM_FOR_ALL,
    healthy_nodes_not_renewed_while_one_is_stuck_is_found => renewing::STUCK_NODE,
    dead_fair_head_that_blocks_is_found => waiting::DEAD_HEAD,
    one_lost_connection_that_stops_renewals_is_found => renewing::ONE_LANE,
    multi_lock_ttl_in_wrong_units_is_found => leases::WRONG_UNITS,
    downgrade_that_wakes_nobody_is_found => waiting::DOWNGRADE,
    release_that_wakes_nobody_is_found => waiting::SILENT_RELEASE,
    token_that_ignores_the_lease_is_found => leases::TOKEN,
    renewal_that_outlives_unlock_is_found => renewing::OUTLIVES,
    ownership_by_thread_that_crosses_coroutines_is_found => owners::ONE_THREAD,
    lease_of_an_earlier_call_that_leaks_is_found => leases::LEAK,
    re_entry_that_shortens_a_lease_is_found => leases::REENTRY,
    re_entry_that_keeps_a_shorter_length_is_found => leases::REENTRY_LENGTH,
    expired_grant_that_is_handed_out_is_found => leases::EXPIRED_GRANT,
    release_error_that_masks_the_programs_own_is_found => owners::RELEASE_FAILS,
    extend_that_returns_something_stale_is_found => leases::STALE,
    refresh_that_re_creates_another_owners_key_is_found => renewing::RE_CREATED,
    expired_lease_that_keeps_its_owner_from_the_lock_is_found => leases::EXPIRED,
    extension_that_outlives_its_expired_lease_is_found => leases::OUTLIVING,
    record_left_by_a_cancelled_acquire_is_found => owners::LEFT_BEHIND,
    unlock_that_deletes_another_owners_lock_is_found => owners::OTHER_OWNER,
    re_entered_multi_lock_that_is_not_renewed_is_found => composite::REENTRY,
    multi_lock_with_a_lost_member_is_found => composite::LOST_MEMBER,
    extension_that_counts_lost_members_is_found => composite::EXTENSION,
    silence_that_counts_from_the_start_of_the_wait_is_found => composite::SILENCE,
    composite_lock_that_waits_for_its_caller_is_found => composite::SELF_WAIT,
    majoritys_lock_that_outlives_its_majority_is_found => composite::LONGEST_MEMBER,
    message_that_wakes_nobody_is_found => fair::IGNORED_MESSAGE,
    many_dead_fair_waiters_that_leave_the_lock_idle_are_found => fair::MANY_DEAD,
    fair_waiter_that_comes_back_is_found => fair::RETURNING_WAITER,
    forged_message_that_grants_is_found => fair::FORGED,
}

#[test]
fn every_known_defect_is_found() {
    let proofs: Vec<_> = ALL.iter().map(|(_, known)| known.prove()).collect();
    for (number, ((_, known), proof)) in (1..).zip(ALL.iter().zip(&proofs)) {
        let found = proof
            .as_ref()
            .map_or_else(Clone::clone, |complaints| complaints.join("; "));
        println!("{number:>2}  {:<48} {found}", known.what);
    }
    let caught = proofs.iter().filter(|proof| proof.is_ok()).count();
    println!("{caught} of {} caught", ALL.len());
    assert_eq!((caught, ALL.len()), (34, 34));
}

/// Random histories in `random_histories.rs` find the defects about outages, about calls that are late or cut off,
/// about connections, and about jobs.
const IN_HISTORIES: [Defect; 21] = [
    Defect::LocalBesideHolder,
    Defect::LocalLeavesRecord,
    Defect::BreakerStaysOpen,
    Defect::ReleaseEndsWithItsConnection,
    Defect::LateAttemptsAreForgotten,
    Defect::LateGrantStays,
    Defect::LongestMemberIsGranted,
    Defect::DemotedServerStays,
    Defect::WatchdogStopsWithCommands,
    Defect::StuckShardDelaysOthers,
    Defect::MovedIsNotFollowed,
    Defect::AskingIsLeftOut,
    Defect::UndoneCallsRunLate,
    Defect::FirstSentinelWins,
    Defect::LanesSplit,
    Defect::FailedRunIsKept,
    Defect::UnusedRunIsKept,
    Defect::RunKeysCollide,
    Defect::DroppedRunSucceeds,
    Defect::RunWaits,
    Defect::SkipTellsTheEnd,
];

#[test]
fn every_patch_has_a_check() {
    let switches = || ALL.iter().flat_map(|(_, known)| known.switches);
    for defect in Defect::ALL {
        let is_it = |(switch, _): &(Switch, &str)| matches!(switch, Switch::Patch(of) if of == defect);
        let is_checked = switches().any(is_it) || IN_HISTORIES.contains(defect);
        assert!(is_checked, "{defect:?} has no check");
    }
}
