//! A known defect: how it can be made, and the check that finds it.

use steadlock_protocol::Script;
use steadlock_protocol::defects::{Defect, with};

/// One way to make a known defect.
#[derive(Debug)]
pub(crate) enum Switch {
    /// A patch in `../../patches`.
    Patch(Defect),
    /// A mistake of scripts. The first text, which occurs once in the script, is replaced by the second.
    Scripts(&'static [(Script, &'static str, &'static str)]),
}

impl Switch {
    /// Returns the defect of the patch, if this is one.
    const fn patch(&self) -> Option<Defect> {
        match self {
            Self::Patch(defect) => Some(*defect),
            Self::Scripts(_) => None,
        }
    }

    /// Returns the defective text of a script, if this switch changes it.
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

/// A defect that some lock library had, and the check that finds it here.
pub(crate) struct Known {
    /// A short description of the defect.
    pub(crate) what: &'static str,
    /// Ways to make the defect. Each comes with words of the expected complaint, so that the check must fail for the
    /// right reason.
    pub(crate) switches: &'static [(Switch, &'static str)],
    /// The check.
    pub(crate) check: fn(Mistake) -> Result<(), String>,
}

impl Known {
    /// Runs the check: it must pass on the real code and fail with each switch on. Returns its complaints.
    pub(crate) fn prove(&self) -> Result<Vec<String>, String> {
        (self.check)(None).map_err(|complaint| format!("{}: the real code fails: {complaint}", self.what))?;
        let complaints =
            self.switches.iter().map(
                |(switch, words)| match with(switch.patch(), || (self.check)(Some(switch))) {
                    Err(complaint) if complaint.contains(words) => Ok(complaint),
                    Err(complaint) => Err(format!("{}: not {words:?}, but {complaint}", self.what)),
                    Ok(()) => Err(format!("{}: not found with {switch:?}", self.what)),
                },
            );
        complaints.collect()
    }
}

/// Returns the complaint unless `is_so`.
pub(crate) fn ensure(is_so: bool, complaint: impl FnOnce() -> String) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(complaint()) }
}
