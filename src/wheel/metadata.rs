//! `Metadata`: METADATA of wheels and PKG-INFO of sdists, parsed and written as core metadata 2.4
//! ([specification](https://packaging.python.org/en/latest/specifications/core-metadata/)).

use std::{fmt, str::FromStr};

use crate::{
    version::{InvalidVersion, Version},
    wheel::{
        headers::{self, Header, HeaderLine, InvalidHeader, InvalidLine},
        name::{DistName, InvalidDistName},
    },
};

#[cfg(test)]
mod tests;

/// Metadata of a distribution. It has only the fields that rocwheel writes or checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    pub name: DistName,
    pub version: Version,
    pub summary: Option<HeaderLine>,
    pub author: Option<HeaderLine>,
    pub author_email: Option<HeaderLine>,
    /// An SPDX expression, `MIT` ([PEP 639](https://peps.python.org/pep-0639/)).
    pub license_expression: Option<HeaderLine>,
    /// Paths relative to `licenses/` in the `.dist-info` directory.
    pub license_files: Vec<HeaderLine>,
    /// Each as `Label, URL`.
    pub project_urls: Vec<HeaderLine>,
    pub classifiers: Vec<HeaderLine>,
    pub requires_python: Option<HeaderLine>,
    /// Requirements, `a>=1; extra == "x"` ([PEP 508](https://peps.python.org/pep-0508/)).
    pub requires_dist: Vec<HeaderLine>,
    pub provides_extra: Vec<DistName>,
    /// Fields that may differ in wheels built from this sdist.
    pub dynamic: Vec<HeaderLine>,
    pub description_content_type: Option<HeaderLine>,
    /// The text after the headers.
    pub description: Option<String>,
}

/// Error of parsing a [`Metadata`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMetadata {
    #[error("metadata that is not UTF-8")]
    Utf8,
    #[error(transparent)]
    Header(#[from] InvalidHeader),
    #[error("metadata without `{0}`")]
    Missing(&'static str),
    #[error("metadata with a second `{0}`")]
    Twice(String),
    #[error("metadata of a version that is not known: {0}")]
    MetadataVersion(HeaderLine),
    #[error("`{field}` of metadata")]
    Field {
        field: String,
        #[source]
        reason: InvalidField,
    },
}

/// Error of parsing the value of a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidField {
    #[error(transparent)]
    Line(#[from] InvalidLine),
    #[error(transparent)]
    Name(#[from] InvalidDistName),
    #[error(transparent)]
    Version(#[from] InvalidVersion),
}

impl Metadata {
    /// Metadata with only the required fields.
    pub fn new(name: DistName, version: Version) -> Self {
        Self {
            name,
            version,
            summary: None,
            author: None,
            author_email: None,
            license_expression: None,
            license_files: Vec::new(),
            project_urls: Vec::new(),
            classifiers: Vec::new(),
            requires_python: None,
            requires_dist: Vec::new(),
            provides_extra: Vec::new(),
            dynamic: Vec::new(),
            description_content_type: None,
            description: None,
        }
    }

    pub fn parse(bytes: &[u8]) -> Result<Self, InvalidMetadata> {
        let text = str::from_utf8(bytes).map_err(|_| InvalidMetadata::Utf8)?;
        let (headers, body) = headers::parse(text)?;
        let headers = Headers(headers);
        headers.check_version()?;
        let name = headers.required("Name")?;
        let version = headers.required("Version")?;
        let text = match headers.one("Description")? {
            Some(header) if body.is_empty() => unfold(&header.value),
            _ => body.to_owned(),
        };
        Ok(Self {
            summary: headers.line("Summary")?,
            author: headers.line("Author")?,
            author_email: headers.line("Author-email")?,
            license_expression: headers.line("License-Expression")?,
            license_files: headers.all("License-File")?,
            project_urls: headers.all("Project-URL")?,
            classifiers: headers.all("Classifier")?,
            requires_python: headers.line("Requires-Python")?,
            requires_dist: headers.all("Requires-Dist")?,
            provides_extra: headers.all("Provides-Extra")?,
            dynamic: headers.all("Dynamic")?,
            description_content_type: headers.line("Description-Content-Type")?,
            description: (!text.is_empty()).then_some(text),
            ..Self::new(name, version)
        })
    }

    /// The extra that a requirement belongs to, if the distribution provides that extra.
    fn extra(&self, requirement: &HeaderLine) -> Option<DistName> {
        extra_of(requirement.as_str()).filter(|extra| self.provides_extra.contains(extra))
    }

    /// The requirements of an extra, or those that are not of any extra.
    fn requirements(&self, extra: Option<&DistName>) -> impl Iterator<Item = &HeaderLine> {
        self.requires_dist
            .iter()
            .filter(move |requirement| self.extra(requirement).as_ref() == extra)
    }
}

/// The headers of one file.
struct Headers(Vec<Header>);

impl Headers {
    /// Accepts metadata 1.x and 2.x: a newer minor version only adds fields, but a newer major one
    /// may change their meaning.
    fn check_version(&self) -> Result<(), InvalidMetadata> {
        let version = self
            .line("Metadata-Version")?
            .ok_or(InvalidMetadata::Missing("Metadata-Version"))?;
        match version.as_str().split_once('.') {
            Some(("1" | "2", minor)) if minor.bytes().all(|byte| byte.is_ascii_digit()) => Ok(()),
            _ => Err(InvalidMetadata::MetadataVersion(version)),
        }
    }

    fn named(&self, name: &str) -> impl Iterator<Item = &Header> {
        self.0
            .iter()
            .filter(move |header| header.name.eq_ignore_ascii_case(name))
    }

    fn one(&self, name: &str) -> Result<Option<&Header>, InvalidMetadata> {
        let mut found = self.named(name);
        let first = found.next();
        match found.next() {
            None => Ok(first),
            Some(_) => Err(InvalidMetadata::Twice(name.to_owned())),
        }
    }

    fn line(&self, name: &str) -> Result<Option<HeaderLine>, InvalidMetadata> {
        self.one(name)?
            .and_then(|header| value(header).transpose())
            .transpose()
    }

    fn required<T>(&self, name: &'static str) -> Result<T, InvalidMetadata>
    where
        T: FromStr<Err: Into<InvalidField>>,
    {
        let line = self.line(name)?.ok_or(InvalidMetadata::Missing(name))?;
        read(name, &line)
    }

    fn all<T>(&self, name: &str) -> Result<Vec<T>, InvalidMetadata>
    where
        T: FromStr<Err: Into<InvalidField>>,
    {
        self.named(name)
            .filter_map(|header| value(header).transpose())
            .map(|line| read(name, &line?))
            .collect()
    }
}

fn value(header: &Header) -> Result<Option<HeaderLine>, InvalidMetadata> {
    header.line().map_err(|reason| InvalidMetadata::Field {
        field: header.name.clone(),
        reason: reason.into(),
    })
}

fn read<T>(field: &str, line: &HeaderLine) -> Result<T, InvalidMetadata>
where
    T: FromStr<Err: Into<InvalidField>>,
{
    line.as_str()
        .parse()
        .map_err(|reason: T::Err| InvalidMetadata::Field {
            field: field.to_owned(),
            reason: reason.into(),
        })
}

/// The text of a `Description` header, which old tools wrote instead of a body. They indented all
/// lines but the first, by eight spaces or by seven spaces and `|`.
fn unfold(value: &str) -> String {
    let lines: Vec<&str> = value
        .split('\n')
        .map(|line| {
            line.strip_prefix("       |")
                .or_else(|| line.strip_prefix("        "))
                .unwrap_or(line)
        })
        .collect();
    lines.join("\n")
}

/// The extra in the marker of a requirement: `x` of `a==1; extra == "x"`.
fn extra_of(requirement: &str) -> Option<DistName> {
    let (_, marker) = requirement.split_once(';')?;
    let (_, after) = marker.split_once("extra ==")?;
    let mut quoted = after.trim_start().split(['"', '\'']);
    quoted.next().filter(|before| before.is_empty())?;
    quoted.next()?.parse().ok()
}

/// Writes the file.
impl fmt::Display for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, value: &dyn fmt::Display| writeln!(f, "{name}: {value}");
        line("Metadata-Version", &"2.4")?;
        line("Name", &self.name)?;
        line("Version", &self.version)?;
        for (name, value) in [
            ("Summary", &self.summary),
            ("Author", &self.author),
            ("Author-email", &self.author_email),
            ("License-Expression", &self.license_expression),
        ] {
            value.iter().try_for_each(|value| line(name, value))?;
        }
        self.project_urls
            .iter()
            .try_for_each(|url| line("Project-URL", url))?;
        self.classifiers
            .iter()
            .try_for_each(|classifier| line("Classifier", classifier))?;
        for (name, value) in [
            ("Requires-Python", &self.requires_python),
            ("Description-Content-Type", &self.description_content_type),
        ] {
            value.iter().try_for_each(|value| line(name, value))?;
        }
        self.license_files
            .iter()
            .try_for_each(|path| line("License-File", path))?;
        self.requirements(None)
            .try_for_each(|requirement| line("Requires-Dist", requirement))?;
        for extra in &self.provides_extra {
            line("Provides-Extra", extra)?;
            self.requirements(Some(extra))
                .try_for_each(|requirement| line("Requires-Dist", requirement))?;
        }
        self.dynamic
            .iter()
            .try_for_each(|field| line("Dynamic", field))?;
        match &self.description {
            Some(text) => write!(f, "\n{text}"),
            None => Ok(()),
        }
    }
}
