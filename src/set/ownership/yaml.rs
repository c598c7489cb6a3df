//! The tree of a YAML document. Each node knows its line, so that every refusal can name it.

use saphyr_parser::{Event, Parser, ScalarStyle};

/// Documents that are nested deeper are refused: dropping a tree takes stack for each level.
const DEEPEST: usize = 32;

#[derive(Debug)]
pub(super) struct YamlNode {
    /// Counted from 1.
    pub(super) line: usize,
    pub(super) value: YamlValue,
}

#[derive(Debug)]
pub(super) enum YamlValue {
    Text(String),
    /// A number, a boolean or nothing, as far as the text is not quoted.
    Plain(String),
    List(Vec<YamlNode>),
    Map(Vec<(YamlNode, YamlNode)>),
}

/// Why a document cannot be read, and in which line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) line: usize,
    pub(super) text: String,
}

impl Problem {
    pub(super) fn new(line: usize, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { line, text }
    }
}

/// Reads the one document of a file.
pub(super) fn read(text: &str) -> Result<YamlNode, Problem> {
    let mut open: Vec<(usize, bool, Vec<YamlNode>)> = Vec::new();
    let mut document = None;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let marker = *error.marker();
            Problem::new(marker.line(), error.info())
        })?;
        let line = span.start.line();
        let node = match event {
            Event::Scalar(text, style, _, tag) => {
                let is_plain = style == ScalarStyle::Plain && tag.is_none() && is_no_text(&text);
                let text = text.into_owned();
                let value = if is_plain {
                    YamlValue::Plain(text)
                } else {
                    YamlValue::Text(text)
                };
                YamlNode { line, value }
            }
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                if open.len() == DEEPEST {
                    return Err(Problem::new(line, "nested too deeply"));
                }
                open.push((line, matches!(event, Event::MappingStart(..)), Vec::new()));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some((line, is_map, nodes)) = open.pop() else {
                    continue;
                };
                let value = if is_map {
                    YamlValue::Map(pairs(nodes))
                } else {
                    YamlValue::List(nodes)
                };
                YamlNode { line, value }
            }
            Event::Alias(_) => return Err(Problem::new(line, "an alias, which has no use here")),
            _ => continue,
        };
        match open.last_mut() {
            Some((_, _, nodes)) => nodes.push(node),
            None if document.is_some() => return Err(Problem::new(line, "a second document")),
            None => document = Some(node),
        }
    }
    document.ok_or_else(|| Problem::new(1, "an empty file"))
}

/// The parser gives each key of a mapping a value, which may be empty.
fn pairs(nodes: Vec<YamlNode>) -> Vec<(YamlNode, YamlNode)> {
    let mut nodes = nodes.into_iter();
    let mut pairs = Vec::new();
    while let (Some(key), Some(value)) = (nodes.next(), nodes.next()) {
        pairs.push((key, value));
    }
    pairs
}

/// Whether a text that is not quoted is a number, a boolean or nothing in YAML.
fn is_no_text(text: &str) -> bool {
    const WORDS: [&str; 8] = ["", "~", "null", "true", "false", "yes", "no", "on"];
    let lower = text.to_ascii_lowercase();
    WORDS.contains(&lower.as_str()) || lower == "off" || text.parse::<f64>().is_ok()
}
