//! How results are printed. stdout gets the result and nothing else; everything else goes to stderr.

use std::fmt;
use std::io;
use std::io::BufWriter;
use std::io::Write;

use anstream::AutoStream;
use anstream::ColorChoice;
use anstyle::AnsiColor;
use serde::Serialize;

use crate::exit::Failure;

/// Where results go. Nothing here panics: a full disk is a [`Failure`], a closed pipe a quiet end.
pub(crate) struct Output {
    out: Box<dyn Write>,
    style: Style,
}

impl Output {
    /// The process's stdout. Colour is decided here, once: a terminal, and nothing like `NO_COLOR` in the environment.
    pub(crate) fn stdout() -> Self {
        let stdout = io::stdout();
        let is_coloured = AutoStream::choice(&stdout) != ColorChoice::Never;
        Self { out: Box::new(BufWriter::new(stdout)), style: Style { is_coloured } }
    }

    /// How to print.
    pub(crate) fn style(&self) -> Style {
        self.style
    }

    /// One line.
    pub(crate) fn line(&mut self, line: impl fmt::Display) -> Result<(), Failure> {
        writeln!(self.out, "{line}").map_err(Failure::output)
    }

    /// One line of JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.out, value).map_err(|error| Failure::output(error.into()))?;
        self.out.write_all(b"\n").map_err(Failure::output)
    }

    /// Bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.out.write_all(bytes).map_err(Failure::output)
    }

    /// A table, its columns aligned.
    pub(crate) fn table(&mut self, table: &Table) -> Result<(), Failure> {
        table.write(self.style, &mut self.out).map_err(Failure::output)
    }

    /// Hands on what is still in memory. The result is written only when this succeeds.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(Failure::output)
    }
}

/// Whether and how text is coloured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    is_coloured: bool,
}

impl Style {
    /// The text in this colour, or as it is.
    pub(crate) fn paint(self, paint: Paint, text: &str) -> String {
        let style = match paint {
            Paint::Title => anstyle::Style::new().bold(),
            Paint::Name => AnsiColor::Cyan.on_default(),
            Paint::Value => AnsiColor::Green.on_default(),
            Paint::Aside => anstyle::Style::new().dimmed(),
            Paint::Plain => anstyle::Style::new(),
        };
        if self.is_coloured { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}

/// What a text is, and thereby its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    Title,
    Name,
    Value,
    Aside,
    Plain,
}

/// Widest that a column is made for the sake of alignment, in characters: one long value must not push everything else
/// off the screen.
const MAX_COLUMN: usize = 44;

/// Rows of cells. Columns are as wide as their widest cell, up to [`MAX_COLUMN`]; a longer cell moves the rest of its row.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

/// How the cells of a column look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) paint: Paint,
    pub(crate) is_right: bool,
}

impl Table {
    /// A table with these columns and no rows.
    pub(crate) fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row below the others.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    fn write(&self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        let widths: Vec<usize> = (0..self.columns.len()).map(|index| self.width(index)).collect();
        for row in &self.rows {
            let last = row.iter().rposition(|cell| !cell.is_empty()).unwrap_or(0);
            for (index, cell) in row[..=last].iter().enumerate() {
                let column = self.columns[index];
                let gap = " ".repeat(widths[index].saturating_sub(cell.chars().count()));
                let painted = style.paint(column.paint, cell);
                let between = if index == 0 { "" } else { "  " };
                match (column.is_right, index == last) {
                    (true, _) => write!(out, "{between}{gap}{painted}")?,
                    (false, true) => write!(out, "{between}{painted}")?,
                    (false, false) => write!(out, "{between}{painted}{gap}")?,
                }
            }
            writeln!(out)?;
        }
        Ok(())
    }

    fn width(&self, index: usize) -> usize {
        let lengths = self.rows.iter().filter_map(|row| row.get(index)).map(|cell| cell.chars().count());
        lengths.filter(|length| *length <= MAX_COLUMN).max().unwrap_or(0)
    }
}

/// The text on one line, without anything that a terminal would obey.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_steering(c) { shown.extend(c.escape_unicode()) } else { shown.push(c) }
    }
    shown
}

/// Marks that turn the direction of writing around, so that a text reads as what it is not.
fn is_steering(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(style: Style) -> String {
        let column = |paint, is_right| Column { paint, is_right };
        let mut table = Table::new(&[
            column(Paint::Plain, true),
            column(Paint::Value, false),
            column(Paint::Aside, false),
        ]);
        table.row(["7".into(), "ä".into(), "short".into()]);
        table.row(["12".into(), "abc".into(), String::new()]);
        table.row(["13".into(), "x".repeat(MAX_COLUMN + 1), "long".into()]);
        let mut out = Vec::new();
        table.write(style, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_are_aligned_and_a_long_cell_moves_only_its_own_row() {
        let long = "x".repeat(MAX_COLUMN + 1);
        assert_eq!(
            written(Style { is_coloured: false }),
            format!(" 7  ä    short\n12  abc\n13  {long}  long\n")
        );
    }

    #[test]
    fn colour_takes_no_place() {
        let coloured = written(Style { is_coloured: true });
        assert!(coloured.contains('\u{1b}'));
        assert_eq!(
            anstream::adapter::strip_str(&coloured).to_string(),
            written(Style { is_coloured: false })
        );
    }

    #[test]
    fn nothing_from_outside_steers_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\n\u{202e}知識"), "a\\u{1b}[2Jb\\u{a}\\u{202e}知識");
    }
}
