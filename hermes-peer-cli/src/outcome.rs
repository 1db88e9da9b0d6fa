//! What a verb made: told in the same way by every verb that writes files.

use std::path::Path;

use serde::Serialize;

use crate::exit::Failure;
use crate::output::Column;
use crate::output::Output;
use crate::output::Paint;
use crate::output::Table;

/// What was done, which files it touched, and what comes next.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    done: String,
    files: Vec<Written>,
    next: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Written {
    path: String,
    what: String,
}

impl Outcome {
    /// Nothing touched yet.
    pub(crate) fn new(done: impl Into<String>) -> Self {
        Self { done: done.into(), files: Vec::new(), next: Vec::new() }
    }

    /// A file that was written.
    pub(crate) fn file(mut self, path: &Path, what: impl Into<String>) -> Self {
        self.files.push(Written { path: path.display().to_string(), what: what.into() });
        self
    }

    /// Something to do next.
    pub(crate) fn next(mut self, line: impl Into<String>) -> Self {
        self.next.push(line.into());
        self
    }

    /// Prints it, for people or as one JSON object.
    pub(crate) fn print(&self, is_json: bool, out: &mut Output) -> Result<(), Failure> {
        if is_json {
            return out.json(self);
        }
        let style = out.style();
        out.line(style.paint(Paint::Title, &self.done))?;
        let column = |paint| Column { paint, is_right: false };
        let mut table = Table::new(&[column(Paint::Plain), column(Paint::Aside)]);
        for file in &self.files {
            table.row([format!("  {}", file.path), file.what.clone()]);
        }
        out.table(&table)?;
        for (index, line) in self.next.iter().enumerate() {
            if index == 0 {
                out.line("")?;
            }
            out.line(line)?;
        }
        Ok(())
    }
}
