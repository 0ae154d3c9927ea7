//! Copies a crate, and adds all known defects to the copy. The build scripts of the copies use this file. `README.md`
//! describes the patches.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

/// The word that stands for "this defect is switched on" in the lines that a patch adds.
const SWITCH: &str = "DEFECT";
/// The folder of the patches.
const PATCHES: &str = "core/simulator/defects/patches";
/// The crates that have copies.
const COPIED: [&str; 2] = ["core/client", "core/protocol"];

/// A known defect.
pub struct Patch {
    /// The name of the defect, which is that of its file.
    pub name: String,
    /// A sentence that describes the defect.
    pub what: String,
    hunks: Vec<Hunk>,
}

/// Neighbouring lines of a file, some of which a patch removes or adds.
struct Hunk {
    file: String,
    lines: Vec<(Change, String)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Keep,
    Remove,
    Add,
}

/// The lines to put in place of the lines `from..to` of a file.
struct Edit<'a> {
    patch: &'a str,
    from: usize,
    to: usize,
    lines: Vec<String>,
}

/// Copies folders of a crate into the folder of the build, with all known defects in the copy. `write` gets the patches
/// and that folder, and may write more files there. If a patch does not fit, Cargo prints the reason.
pub fn build(of: &str, folders: &[&str], write: impl FnOnce(&[Patch], &Path) -> Result<(), String>) -> ExitCode {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../..");
    let to = env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    let folders: Vec<String> = folders.iter().map(|folder| format!("{of}/{folder}")).collect();
    for path in folders.iter().map(String::as_str).chain([PATCHES]) {
        println!("cargo::rerun-if-changed={}", root.join(path).display());
    }
    let copied = read_all(&root.join(PATCHES)).and_then(|patches| {
        copy(&root, of, &folders, &patches, &to)?;
        write(&patches, &to)
    });
    let Err(why) = copied else { return ExitCode::SUCCESS };
    for line in why.lines() {
        println!("cargo::error={line}");
    }
    ExitCode::FAILURE
}

/// Copies folders of a crate, with all patches. The error names each file that a patch does not fit.
fn copy(root: &Path, of: &str, folders: &[String], patches: &[Patch], to: &Path) -> Result<(), String> {
    let mut files = Vec::new();
    for folder in folders {
        files_of(root, folder, &mut files)?;
    }
    let mut problems = Vec::new();
    for patch in patches {
        let named = patch.hunks.iter().map(|hunk| Path::new(&hunk.file));
        let missing = named.filter(|file| file.starts_with(of) && !files.iter().any(|other| Path::new(other) == *file));
        problems.extend(missing.map(|file| format!("{}: there is no file {}", patch.name, file.display())));
    }
    for file in &files {
        match apply(file, &read(&root.join(file))?, patches) {
            Ok(text) if *file == format!("{of}/src/lib.rs") => {
                save(&to.join("src/lib.rs"), &without_inner_attributes(&text))?
            }
            Ok(text) => save(&to.join(file.trim_start_matches(of).trim_start_matches('/')), &text)?,
            Err(why) => problems.push(why),
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems.join("\n"))
    }
}

/// Reads all patches of a folder, in the order of their names.
fn read_all(folder: &Path) -> Result<Vec<Patch>, String> {
    let mut paths = entries(folder)?;
    paths.sort();
    let patch = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Patch::parse(&name, &read(path)?)
    };
    paths.iter().map(patch).collect()
}

impl Patch {
    /// Parses a patch: a sentence, then the changes as `git diff` writes them. The numbers of lines are ignored.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let (mut what, mut file, mut hunks) = (Vec::new(), None, Vec::<Hunk>::new());
        for line in text.lines() {
            if let Some(path) = line.strip_prefix("--- ") {
                file = Some(path.trim_start_matches("a/").to_owned());
            } else if line.starts_with("@@") {
                let file = file
                    .clone()
                    .ok_or_else(|| format!("{name}: no `---` names a file before {line:?}"))?;
                let lines = Vec::new();
                hunks.push(Hunk { file, lines });
            } else if ["diff ", "index ", "+++ "].iter().any(|start| line.starts_with(start)) {
                // The name of the file is known from `---`.
            } else if let Some(hunk) = hunks.last_mut() {
                let (change, line) = match line.split_at_checked(1) {
                    Some(("-", line)) => (Change::Remove, line),
                    Some(("+", line)) => (Change::Add, line),
                    Some((" ", line)) => (Change::Keep, line),
                    None => (Change::Keep, line),
                    Some(_) => return Err(format!("{name}: no line of a diff: {line:?}")),
                };
                hunk.lines.push((change, line.to_owned()));
            } else {
                what.push(line.trim());
            }
        }
        let mut added = hunks
            .iter()
            .flat_map(|hunk| &hunk.lines)
            .filter(|(change, _)| *change == Change::Add);
        if !added.any(|(_, line)| line.contains(SWITCH)) {
            return Err(format!(
                "{name}: no added line has the word {SWITCH}, so nothing would switch the defect off"
            ));
        }
        if let Some(hunk) = hunks
            .iter()
            .find(|hunk| !COPIED.iter().any(|of| Path::new(&hunk.file).starts_with(of)))
        {
            return Err(format!("{name}: {} is not in one of {COPIED:?}", hunk.file));
        }
        let (name, what) = (name.to_owned(), what.join(" ").trim().to_owned());
        Ok(Self { name, what, hunks })
    }
}

/// Returns the text of a file with all patches, each of which must find its lines exactly once.
pub fn apply(file: &str, text: &str, patches: &[Patch]) -> Result<String, String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut edits = Vec::new();
    for patch in patches {
        for hunk in patch.hunks.iter().filter(|hunk| hunk.file == file) {
            edits.append(&mut hunk.edits(&patch.name, &lines)?);
        }
    }
    edits.sort_by_key(|edit| (edit.from, edit.to));
    let mut patched = Vec::new();
    let mut done = 0;
    let mut last = "";
    for edit in &edits {
        if edit.from < done {
            let Edit { patch, .. } = edit;
            return Err(format!(
                "{patch}: {last} changes the same lines of {file}; one of them can add lines instead"
            ));
        }
        patched.extend(lines[done..edit.from].iter().copied());
        patched.extend(edit.lines.iter().map(String::as_str));
        (done, last) = (edit.to, edit.patch);
    }
    patched.extend(lines[done..].iter().copied());
    Ok(patched.join("\n") + "\n")
}

impl Hunk {
    /// Returns the edits that the hunk makes to the lines of its file.
    fn edits<'a>(&self, patch: &'a str, lines: &[&str]) -> Result<Vec<Edit<'a>>, String> {
        let found: Vec<&str> = self
            .lines
            .iter()
            .filter(|(change, _)| *change != Change::Add)
            .map(|(_, line)| &**line)
            .collect();
        let places: Vec<usize> = (0..lines.len()).filter(|at| lines[*at..].starts_with(&found)).collect();
        let [place] = places[..] else {
            let (file, count, found) = (&self.file, places.len(), found.join("\n"));
            return Err(format!(
                "{patch}: {file} has these lines {count} times, not once:\n{found}"
            ));
        };
        let mut edits = Vec::<Edit<'a>>::new();
        let mut at = place;
        let mut is_new = true;
        for (change, line) in &self.lines {
            if *change != Change::Keep && std::mem::take(&mut is_new) {
                let lines = Vec::new();
                edits.push(Edit {
                    patch,
                    from: at,
                    to: at,
                    lines,
                });
            }
            is_new |= *change == Change::Keep;
            match (change, edits.last_mut()) {
                (Change::Add, Some(edit)) => edit
                    .lines
                    .push(line.replace(SWITCH, &format!("crate::defects::Defect::{patch}.is_on()"))),
                (Change::Remove, Some(edit)) => {
                    at += 1;
                    edit.to = at;
                }
                _ => at += 1,
            }
        }
        Ok(edits)
    }
}

/// Returns the root of a crate without its inner documentation and attributes, which `include!` does not allow.
fn without_inner_attributes(text: &str) -> String {
    let is_inner = |line: &&str| line.starts_with("//!") || line.starts_with("#![");
    text.lines()
        .filter(|line| !is_inner(line))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Adds the files of a folder, with their paths from the root.
fn files_of(root: &Path, folder: &str, files: &mut Vec<String>) -> Result<(), String> {
    for path in entries(&root.join(folder))? {
        let name = format!("{folder}/{}", path.file_name().unwrap_or_default().to_string_lossy());
        if path.is_dir() {
            files_of(root, &name, files)?;
        } else {
            files.push(name);
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    entries.map_err(|error| format!("{}: {error}", folder.display()))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Writes a file, and makes its folder.
pub fn save(path: &Path, text: &str) -> Result<(), String> {
    let folder = path.parent().unwrap_or(path);
    let saved = fs::create_dir_all(folder).and_then(|()| fs::write(path, text));
    saved.map_err(|error| format!("{}: {error}", path.display()))
}
