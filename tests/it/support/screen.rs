//! A terminal: what a program printed, as a person sees it.

use std::fmt::Write as _;

use crate::support::prelude::*;

/// A character, and the colors it has: `1;32`.
#[derive(Clone, Debug)]
struct Cell {
    character: char,
    style: String,
}

/// The screen of a terminal that is as long as it has to be. Lines that are too long are wrapped.
#[derive(Debug)]
pub(crate) struct Screen {
    columns: usize,
    rows: Vec<Vec<Cell>>,
    row: usize,
    column: usize,
    style: Vec<String>,
    /// The lines that may have been written over: the bars, and others.
    pub(crate) erased: Vec<String>,
}

/// Runs the binary on a pseudo-terminal, in a directory. `script` of util-linux makes the terminal.
/// `change` is applied to the output before it is shown, so that a path of any length can have a
/// name of its own.
pub(crate) fn shown(
    (columns, directory): (usize, &Path),
    line: &str,
    change: impl Fn(&str) -> String,
) -> (i32, Screen) {
    let (code, said) = printed((columns, directory), line, &[]);
    let mut screen = Screen::new(columns);
    screen.print(&change(&said));
    (code, screen)
}

/// What the binary prints on a pseudo-terminal, with all escapes.
pub(crate) fn printed(
    (columns, directory): (usize, &Path),
    line: &str,
    variables: &[(&str, &str)],
) -> (i32, String) {
    let shell = format!("stty cols {columns} rows 50; exec '{ROCWHEEL}' {line}");
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--flush", "--command", &shell, "/dev/null"]);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let output = script
        .env_clear()
        .envs([("TERM", "xterm-256color"), ("SHELL", "/bin/sh")])
        .env("PATH", path)
        .envs(variables.iter().copied())
        .current_dir(directory)
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("script: {error}: apt-get install bsdutils"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code().unwrap_or(-1), said)
}

impl Screen {
    fn new(columns: usize) -> Self {
        Self {
            columns,
            rows: vec![Vec::new()],
            row: 0,
            column: 0,
            style: Vec::new(),
            erased: Vec::new(),
        }
    }

    /// The text, without spaces at the ends of lines.
    pub(crate) fn text(&self) -> String {
        let rows = self.rows.iter().map(|row| line(row));
        rows.collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }

    fn print(&mut self, output: &str) {
        let escape =
            Regex::new(r"^\x1b(\[([0-9;?]*)([A-Za-z])|\][^\x07\x1b]*(\x07|\x1b\\))").unwrap();
        let mut rest = output;
        while let Some(first) = rest.chars().next() {
            if let Some(found) = escape.captures(rest) {
                let of = |group| found.get(group).map_or("", |it| it.as_str());
                self.obey(of(3), of(2));
                rest = &rest[found[0].len()..];
                continue;
            }
            match first {
                '\r' => {
                    self.erased.push(line(&self.rows[self.row]));
                    self.column = 0;
                }
                '\n' => self.go_to(self.row + 1),
                '\x1b' => panic!("an escape that the test does not know: {rest:.20?}"),
                _ => self.put(first),
            }
            rest = &rest[first.len_utf8()..];
        }
    }

    fn put(&mut self, character: char) {
        if self.column == self.columns {
            self.go_to(self.row + 1);
            self.column = 0;
        }
        let row = &mut self.rows[self.row];
        let blank = Cell { character: ' ', style: String::new() };
        row.resize(row.len().max(self.column + 1), blank);
        row[self.column] = Cell { character, style: self.style.join(";") };
        self.column += 1;
    }

    fn go_to(&mut self, row: usize) {
        self.row = row;
        while self.rows.len() <= row {
            self.rows.push(Vec::new());
        }
    }

    fn obey(&mut self, command: &str, parameter: &str) {
        let count = parameter.parse().unwrap_or(1);
        match command {
            "A" => self.row = self.row.saturating_sub(count),
            "B" => self.go_to(self.row + count),
            "C" => self.column = (self.column + count).min(self.columns - 1),
            "D" => self.column = self.column.saturating_sub(count),
            "K" => {
                self.erased.push(line(&self.rows[self.row]));
                self.rows[self.row].clear();
            }
            "J" => self.rows.truncate(self.row + 1),
            "m" if ["", "0"].contains(&parameter) => self.style.clear(),
            "m" => self.style.push(parameter.to_owned()),
            // Hides and shows the cursor; links have no parameter.
            "h" | "l" | "" => {}
            _ => panic!("a command that the test does not know: {parameter}{command}"),
        }
    }

    /// A picture of the screen, up to the line `end`, in the light or dark colors that the reader's browser prefers.
    pub(crate) fn picture(&self, prompt: &str, end: &str) -> String {
        const LINE: usize = 18;
        let shown: Vec<&Vec<Cell>> = self.rows.iter().take_while(|row| line(row) != end).collect();
        let (width, height) = (self.columns * 42 / 5 + 32, (shown.len() + 1) * LINE + 32);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" xml:space=\"preserve\" viewBox=\"0 0 {width} {height}\" width=\"{width}\">\n{STYLE}"
        );
        let _ = writeln!(
            svg,
            "<rect width=\"{width}\" height=\"{height}\" rx=\"8\"/>\n<text x=\"16\" y=\"30\"><tspan class=\"s1\">$</tspan> {}</text>",
            escaped(prompt)
        );
        let written = shown.into_iter().enumerate();
        for (index, row) in written.filter(|(_, row)| !line(row).is_empty()) {
            let _ = write!(svg, "<text x=\"16\" y=\"{}\">", 30 + (index + 1) * LINE);
            for run in row.chunk_by(|a, b| a.style == b.style) {
                let text: String = run.iter().map(|cell| cell.character).collect();
                match run[0].style.as_str() {
                    "" => svg += &escaped(&text),
                    style => {
                        let class = style.replace(';', " s");
                        let _ = write!(svg, "<tspan class=\"s{class}\">{}</tspan>", escaped(&text));
                    }
                }
            }
            svg += "</text>\n";
        }
        svg + "</svg>\n"
    }
}

/// The colors of GitHub's pages.
const STYLE: &str = "<style>\
    text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre;fill:#1f2328}\
    rect{fill:#f6f8fa;stroke:#d1d9e0}\
    .s1{font-weight:600}.s31{fill:#d1242f}.s32{fill:#1a7f37}.s33{fill:#9a6700}.s36{fill:#0969da}\
    @media(prefers-color-scheme:dark){text{fill:#f0f6fc}rect{fill:#151b23;stroke:#3d444d}\
    .s31{fill:#f85149}.s32{fill:#3fb950}.s33{fill:#d29922}.s36{fill:#4493f8}}\
    </style>\n";

fn line(row: &[Cell]) -> String {
    let text: String = row.iter().map(|cell| cell.character).collect();
    text.trim_end().to_owned()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
