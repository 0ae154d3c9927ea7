//! The words of an error: what went wrong, what caused it, and what to do. They become one text here alone.

use std::fmt;

use crate::foreign::around;

/// What caused an error, and what to do about that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    text: Box<str>,
    advice: Option<Box<str>>,
}

impl Cause {
    /// What the server or the network said, or why nothing came.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into().into(),
            advice: None,
        }
    }

    /// Several at once: the texts of so many of them, and the first advice.
    #[must_use]
    pub fn joined<'a>(mut causes: impl Iterator<Item = &'a Self> + Clone, shown: usize) -> Self {
        let texts: Vec<&str> = causes.clone().take(shown).map(Self::text).collect();
        let advice = causes.find_map(|cause| cause.advice.clone());
        Self {
            text: texts.join("; ").into(),
            advice,
        }
    }

    /// The same, with what to do about it.
    #[must_use]
    pub fn with_advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into().into());
        self
    }

    /// The same with another text, which `change` makes of this one's.
    #[must_use]
    pub fn reworded(self, change: impl FnOnce(&str) -> String) -> Self {
        Self {
            text: change(&self.text).into(),
            ..self
        }
    }

    /// What the server or the network said, or why nothing came.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What to do about it.
    #[must_use]
    pub fn advice(&self) -> Option<&str> {
        self.advice.as_deref()
    }
}

impl From<&str> for Cause {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Cause {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        put_together(f, "", Some(&self.text), self.advice())
    }
}

/// What an error says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Words {
    /// Empty if there is nothing to say but the cause.
    what: Box<str>,
    cause: Option<Box<str>>,
    advice: Option<Box<str>>,
}

impl Words {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into().into(),
            cause: None,
            advice: None,
        }
    }

    pub(crate) fn set_cause(&mut self, cause: Cause) {
        self.cause = Some(cause.text);
        if let Some(advice) = cause.advice {
            self.add_advice(&advice);
        }
    }

    pub(crate) fn add_advice(&mut self, advice: &str) {
        self.advice = Some(match &self.advice {
            Some(before) => format!("{before}; {advice}").into(),
            None => advice.into(),
        });
    }

    /// Puts a holder's name in the place of its owner id.
    pub(crate) fn name_in_cause(&mut self, owner: &str, name: &dyn fmt::Display) {
        if let Some((before, after)) = self.cause.as_deref().and_then(|cause| around(cause, owner)) {
            self.cause = Some(format!("{before}{name}{after}").into());
        }
    }

    pub(crate) fn cause(&self) -> Option<&str> {
        self.cause.as_deref()
    }

    /// The cause and the advice; what went wrong, if nothing else caused it.
    pub(crate) fn as_cause(&self) -> Cause {
        Cause {
            text: self.cause.as_ref().unwrap_or(&self.what).clone(),
            advice: self.advice.clone(),
        }
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        put_together(f, &self.what, self.cause(), self.advice.as_deref())
    }
}

/// The one text that people read.
fn put_together(f: &mut fmt::Formatter<'_>, what: &str, cause: Option<&str>, advice: Option<&str>) -> fmt::Result {
    f.write_str(what)?;
    if let Some(cause) = cause {
        let colon = if what.is_empty() { "" } else { ": " };
        write!(f, "{colon}{cause}")?;
    }
    advice.map_or(Ok(()), |advice| write!(f, "; {advice}"))
}
