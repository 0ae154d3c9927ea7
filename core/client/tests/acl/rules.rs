//! Reads the ACL rules from SECURITY.md.

use crate::support::Redis;

const SECURITY: &str = include_str!("../../../../SECURITY.md");
const PASSWORD: &str = "sesame";

/// Returns the users that have a rule, in the order of the text.
pub fn users() -> Vec<String> {
    let rules = SECURITY.lines().filter_map(|line| line.strip_prefix("ACL SETUSER "));
    rules
        .filter_map(|rule| rule.split(' ').next())
        .map(String::from)
        .collect()
}

/// The rights of one user.
#[derive(Clone, Debug)]
pub struct Rule {
    pub user: String,
    /// The arguments of `ACL SETUSER` for the user, with a password.
    words: Vec<String>,
}

impl Rule {
    /// Reads the rule of this user. Only PASSWORD is replaced, as SECURITY.md tells readers to do.
    pub fn printed(user: &str) -> Self {
        let start = format!("ACL SETUSER {user} ");
        let mut found = SECURITY.lines().filter_map(|line| line.strip_prefix(&start));
        let line = found.next().unwrap_or_else(|| panic!("SECURITY.md has no {start}"));
        assert!(found.next().is_none(), "SECURITY.md has {start} twice");
        Self {
            user: user.into(),
            words: line.split(' ').map(|word| word.replace("PASSWORD", PASSWORD)).collect(),
        }
    }

    /// Returns the commands, key patterns and channel patterns that the rule grants.
    pub fn rights(&self) -> Vec<String> {
        let is_right = |word: &&String| word.starts_with(['+', '~', '&', '%']);
        self.words.iter().filter(is_right).cloned().collect()
    }

    /// Returns the same rule for another user, without one right.
    pub fn without(&self, right: &str, user: String) -> Self {
        let words = self.words.iter().filter(|word| *word != right).cloned().collect();
        Self { user, words }
    }

    /// Returns the same rule with another right.
    pub fn with(&self, right: &str) -> Self {
        let mut words = self.words.clone();
        words.push(right.into());
        Self {
            user: self.user.clone(),
            words,
        }
    }

    /// Creates this user on the server.
    pub fn apply(&self, server: &Redis) {
        let mut command = vec!["ACL", "SETUSER", &self.user];
        command.extend(self.words.iter().map(String::as_str));
        server.run(&command);
    }

    /// Returns the line of this user for an ACL file.
    pub fn in_file(&self) -> String {
        format!("user {} {}\n", self.user, self.words.join(" "))
    }

    /// Returns the server's URL for this user.
    pub fn url(&self, server: &Redis) -> String {
        format!("redis://{}:{PASSWORD}@127.0.0.1:{}", self.user, server.port)
    }
}
