//! A patch that does not fit must fail. Otherwise a test would search for a defect that the copies do not have.

#[path = "../patches.rs"]
#[allow(dead_code, unreachable_pub, reason = "the build scripts use the rest")]
mod patches;

use patches::{Patch, apply};

const FILE: &str = "core/protocol/src/io.rs";
const TEXT: &str = "fn probe() {\n    ask();\n}\n\nfn wait() {\n    sleep();\n}\n";

/// Returns the patch of a file with these lines.
fn patch(name: &str, lines: &str) -> Patch {
    Patch::parse(name, &format!("No probe is sent.\n\n--- {FILE}\n@@\n{lines}")).unwrap()
}

#[test]
fn a_patch_finds_its_lines_wherever_they_are() {
    let silent = patch("Silent", " fn probe() {\n-    ask();\n+    if !DEFECT { ask(); }\n");
    let text = apply(FILE, &format!("\n{TEXT}"), &[silent]).unwrap();
    let line = "    if !crate::defects::Defect::Silent.is_on() { ask(); }";
    assert_eq!(text, format!("\n{}", TEXT.replace("    ask();", line)));
}

#[test]
fn a_patch_whose_lines_are_gone_fails_with_its_name_and_its_file() {
    let silent = patch("Silent", "-    ask_again();\n+    if !DEFECT { ask_again(); }\n");
    let why = apply(FILE, TEXT, &[silent]).unwrap_err();
    let expected = "Silent: core/protocol/src/io.rs has these lines 0 times, not once:\n    ask_again();";
    assert_eq!(why, expected);
}

#[test]
fn a_patch_whose_lines_occur_twice_fails() {
    let silent = patch("Silent", "-    ask();\n+    if !DEFECT { ask(); }\n");
    let why = apply(FILE, &TEXT.repeat(2), &[silent]).unwrap_err();
    assert!(
        why.starts_with("Silent: core/protocol/src/io.rs has these lines 2 times"),
        "{why}"
    );
}

#[test]
fn two_patches_may_add_lines_at_one_place_but_not_change_one_line() {
    let add = |name| patch(name, " fn probe() {\n+    if DEFECT { return; }\n");
    let text = apply(FILE, TEXT, &[add("One"), add("Two")]).unwrap();
    assert_eq!(text.matches(".is_on()").count(), 2, "{text}");
    let change = |name| patch(name, "-    ask();\n+    if !DEFECT { ask(); }\n");
    let why = apply(FILE, TEXT, &[change("One"), change("Two")]).unwrap_err();
    assert!(
        why.starts_with("Two: One changes the same lines of core/protocol/src/io.rs"),
        "{why}"
    );
}

#[test]
fn the_output_of_git_is_a_patch() {
    let diff = format!(
        "No probe is sent.\n\ndiff --git a/{FILE} b/{FILE}\nindex 1234567..89abcde 100644\n--- a/{FILE}\n+++ b/{FILE}\n\
         @@ -1,3 +1,4 @@ impl Io {{\n fn probe() {{\n+    if DEFECT {{ return; }}\n     ask();\n }}\n"
    );
    let silent = Patch::parse("Silent", &diff).unwrap();
    assert_eq!((&*silent.name, &*silent.what), ("Silent", "No probe is sent."));
    assert!(apply(FILE, TEXT, &[silent]).unwrap().contains("is_on()"));
}

#[test]
fn a_patch_that_nothing_switches_off_is_refused() {
    let why = Patch::parse("Silent", &format!("No probe is sent.\n\n--- {FILE}\n@@\n-    ask();\n"));
    assert!(
        why.err()
            .unwrap()
            .starts_with("Silent: no added line has the word DEFECT")
    );
}

#[test]
fn a_patch_of_a_file_that_has_no_copy_is_refused() {
    let why = Patch::parse(
        "Silent",
        "No probe.\n\n--- core/store/src/store.rs\n@@\n+    if DEFECT { return; }\n",
    );
    assert!(
        why.err()
            .unwrap()
            .starts_with("Silent: core/store/src/store.rs is not in one of")
    );
}
