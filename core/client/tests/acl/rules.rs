//! The rules as SECURITY.md prints them.

use crate::support::Redis;

const SECURITY: &str = include_str!("../../../../SECURITY.md");
const PASSWORD: &str = "sesame";

/// The users that have a rule, in the order of the text.
pub fn users() -> Vec<String> {
    let rules = SECURITY.lines().filter_map(|line| line.strip_prefix("ACL SETUSER "));
    rules
        .filter_map(|rule| rule.split(' ').next())
        .map(String::from)
        .collect()
}

/// What one user may do.
#[derive(Clone, Debug)]
pub struct Rule {
    pub user: String,
    /// The words of its `ACL SETUSER`, with a password.
    words: Vec<String>,
}

impl Rule {
    /// The rule of this user. Only PASSWORD is replaced, as the text says.
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

    /// The commands, key patterns and channel patterns that it grants.
    pub fn rights(&self) -> Vec<String> {
        let is_right = |word: &&String| word.starts_with(['+', '~', '&', '%']);
        self.words.iter().filter(is_right).cloned().collect()
    }

    /// The same for another user, without one right.
    pub fn without(&self, right: &str, user: String) -> Self {
        let words = self.words.iter().filter(|word| *word != right).cloned().collect();
        Self { user, words }
    }

    /// The same with more.
    pub fn with(&self, right: &str) -> Self {
        let mut words = self.words.clone();
        words.push(right.into());
        Self {
            user: self.user.clone(),
            words,
        }
    }

    /// Gives the server this user.
    pub fn apply(&self, server: &Redis) {
        let mut command = vec!["ACL", "SETUSER", &self.user];
        command.extend(self.words.iter().map(String::as_str));
        server.run(&command);
    }

    /// Its line in an ACL file.
    pub fn in_file(&self) -> String {
        format!("user {} {}\n", self.user, self.words.join(" "))
    }

    /// The server's URL for this user.
    pub fn url(&self, server: &Redis) -> String {
        format!("redis://{}:{PASSWORD}@127.0.0.1:{}", self.user, server.port)
    }
}
