//! Finds the right that the server's user lacks, where the server's error does not name it.
//!
//! The server can refuse a call as a whole, for one of its keys, or within its script. In the last case, Redis before
//! 7.2 names neither the key nor the command. Its error does name the line at which the script stopped, and that line
//! of the script names the command.

use steadlock_protocol::{Call, CallError, Script, shown_words};
use steadlock_resp::replies::ServerError;

/// Returns the error of a call, with the missing right if one is the reason.
pub(super) fn explain(error: &ServerError, call: &Call) -> CallError {
    missing(&error.code, &error.message, call).unwrap_or_else(|| error.to_call_error())
}

/// Returns the error of a call if the reason is a missing right.
fn missing(code: &str, message: &str, call: &Call) -> Option<CallError> {
    // Texts are compared here because Redis 6.2 and 7.0 give these errors no code of their own.
    let in_script =
        message.contains("The user executing the script can't") || message.contains("ACL failure in script");
    if !in_script && code != "NOPERM" {
        return None;
    }
    let lacked = if message.contains("access a key") || message.contains("one of the keys") {
        format!("may not use one of the keys {}", keys(call))
    } else if in_script {
        let commands = commands(call.script, line(message));
        let one_of = if commands.len() > 1 { "one of " } else { "" };
        format!(
            "may not run {one_of}{} (in {})",
            commands.join(", "),
            call.script.file()
        )
    } else {
        format!("lacks a right ({message})")
    };
    Some(CallError::Server {
        code: "NOPERM".into(),
        message: format!("its user {lacked}"),
    })
}

fn keys(call: &Call) -> String {
    let keys: Vec<_> = call.keys.iter().map(|key| shown_words(key)).collect();
    keys.join(", ")
}

/// Returns the line at which the script stopped.
fn line(message: &str) -> Option<usize> {
    let (_, rest) = message.split_once("@user_script:")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Returns the commands that a line of a script calls. For no line, or one that calls none, returns the commands whose
/// errors the script returns, or else all its commands.
fn commands(script: Script, line: Option<usize>) -> Vec<&'static str> {
    let text = script.text();
    let named = |text: &'static str, call: &str| -> Vec<&'static str> {
        let calls = text.split(call).skip(1);
        calls.filter_map(|rest| rest.split('\'').next()).collect()
    };
    let at_line = line.and_then(|number| text.lines().nth(number.checked_sub(1)?));
    let found = at_line.map_or_else(Vec::new, |line| named(line, "call('"));
    if !found.is_empty() {
        return found;
    }
    let mut commands_of_calls = named(text, "pcall('");
    // A failed `PUBLISH` does not fail the script.
    commands_of_calls.retain(|command| *command != "PUBLISH");
    if commands_of_calls.is_empty() {
        named(text, "call('")
    } else {
        commands_of_calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_read_from_the_errors_of_each_server_version() {
        for (message, expected) in [
            (
                "Error running script (call to f_1): @user_script:31: @user_script: 31: The user",
                Some(31),
            ),
            ("this command or subcommand script: 6e81, on @user_script:4.", Some(4)),
            (
                "ACL failure in script: User u has no permissions script: on @user_script:12.",
                Some(12),
            ),
            (
                "The user executing the script can't run this command or subcommand",
                None,
            ),
        ] {
            assert_eq!(line(message), expected, "{message}");
        }
    }

    #[test]
    fn every_call_of_every_script_is_found_by_its_line() {
        for script in Script::ALL {
            for (index, text) in script.text().lines().enumerate() {
                let found = commands(*script, Some(index + 1));
                assert!(!found.is_empty(), "{}:{}", script.file(), index + 1);
                assert!(
                    !text.contains("call('") || found.iter().all(|command| text.contains(command)),
                    "{}: {text}: {found:?}",
                    script.file()
                );
            }
        }
    }

    #[test]
    fn without_a_line_the_commands_whose_errors_are_returned_are_named() {
        assert_eq!(commands(Script::LockAcquire, None), ["HRANDFIELD", "GET", "PEXPIRE"]);
    }
}
