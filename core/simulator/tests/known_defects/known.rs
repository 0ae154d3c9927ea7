//! What a known defect is: how it can be made, and the check that finds it.

use steadlock_protocol::{Defect, Script};

/// One way to make a known defect.
#[derive(Debug)]
pub(crate) enum Switch {
    /// A mistake of the session.
    Session(Defect),
    /// A mistake of scripts: in each, the first text stands once and is replaced by
    /// the second.
    Scripts(&'static [(Script, &'static str, &'static str)]),
}

impl Switch {
    /// The defective text of a script, if it is this script that is defective.
    pub(crate) fn text(&self, script: Script) -> Option<String> {
        let Self::Scripts(changes) = self else { return None };
        let changes = changes.iter().filter(|(of, ..)| *of == script);
        changes.fold(None, |text, (script, right, wrong)| {
            let text = text.unwrap_or_else(|| script.text().to_owned());
            assert_eq!(text.matches(right).count(), 1, "{} has {right:?} once", script.file());
            Some(text.replace(right, wrong))
        })
    }
}

/// The mistake that is switched on, if any.
pub(crate) type Mistake = Option<&'static Switch>;

/// A defect that some lock library had, and how it would be found here.
pub(crate) struct Known {
    /// What went wrong.
    pub(crate) what: &'static str,
    /// Ways to make it, each with words of the complaint that it must lead to, so
    /// that it is found for the right reason.
    pub(crate) switches: &'static [(Switch, &'static str)],
    /// The check.
    pub(crate) check: fn(Mistake) -> Result<(), String>,
}

impl Known {
    /// Whether the check passes on the real code and fails with each switch on; what
    /// it complained of.
    pub(crate) fn prove(&self) -> Result<Vec<String>, String> {
        (self.check)(None).map_err(|complaint| format!("{}: the real code fails: {complaint}", self.what))?;
        let complaints = self
            .switches
            .iter()
            .map(|(switch, words)| match (self.check)(Some(switch)) {
                Err(complaint) if complaint.contains(words) => Ok(complaint),
                Err(complaint) => Err(format!("{}: not {words:?}, but {complaint}", self.what)),
                Ok(()) => Err(format!("{}: not found with {switch:?}", self.what)),
            });
        complaints.collect()
    }
}

/// The complaint, unless it is so.
pub(crate) fn ensure(is_so: bool, complaint: impl FnOnce() -> String) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(complaint()) }
}
