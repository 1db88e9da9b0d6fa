//! What is wrong with a configuration file, and where.

use std::fmt;

/// Where something stands in a file, both counted from 1; columns are characters. Line 0 is the file as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Position {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl Position {
    pub(super) const fn new(line: usize, column: usize) -> Self {
        Self { line, column }
    }
}

/// Whether a finding keeps a node from starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Severity {
    /// A start is refused.
    Error,
    /// A start goes ahead; somebody should look.
    Warning,
}

/// One thing that is wrong with a file. It never holds a secret's value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The file as it was named by whoever asked.
    pub file: String,
    /// Where in the file.
    pub at: Position,
    /// The key, such as `peers[1].endpoint`; empty where the file as a whole is meant.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What would be right; empty where the message says it.
    pub remedy: String,
    /// Whether a start is refused.
    pub severity: Severity,
    /// The line that [`at`](Self::at) points into, to be shown with a caret; absent where it could hold a secret.
    pub source_line: Option<String>,
}

impl fmt::Display for Finding {
    /// `file:line:column: key: what is wrong; what would be right`, on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.at.line > 0 {
            write!(f, ":{}:{}", self.at.line, self.at.column)?;
        }
        f.write_str(": ")?;
        if self.severity == Severity::Warning {
            f.write_str("warning: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        if !self.remedy.is_empty() {
            write!(f, "; {}", self.remedy)?;
        }
        Ok(())
    }
}

/// A configuration file that is refused, with everything that was found. Printed as one line for each finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    findings: Vec<Finding>,
}

impl ConfigError {
    pub(super) fn new(findings: Vec<Finding>) -> Self {
        Self { findings }
    }

    /// What was found, warnings too, in the order of the file.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, finding) in self.findings.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            fmt::Display::fmt(finding, f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
