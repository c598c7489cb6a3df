//! [`UploadTime`]: when a file was uploaded, in the format of
//! [PEP 700](https://peps.python.org/pep-0700/).

use std::{
    fmt,
    str::FromStr,
    time::{SystemTime, UNIX_EPOCH},
};

/// A time in UTC: `2026-03-01T12:00:05.250000Z`; the fraction is optional.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UploadTime(Box<str>);

/// Why a text is not an `UploadTime`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a time like `2026-03-01T12:00:05Z`: {0:?}")]
pub struct InvalidUploadTime(String);

impl UploadTime {
    /// Converts a time, without fraction of a second. `None` before 1970.
    pub fn of(time: SystemTime) -> Option<Self> {
        let seconds = time.duration_since(UNIX_EPOCH).ok()?.as_secs();
        let (days, second) = (seconds / 86_400, seconds % 86_400);
        let (year, month, day) = date(days)?;
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z");
        text.parse().ok()
    }
}

/// Year, month and day of a number of days after 1 January 1970.
fn date(days: u64) -> Option<(u64, u64, u64)> {
    // Count years from March on, so that the leap day is the last day of a year.
    let since_year_0 = days.checked_add(719_468)?;
    let (era, day) = (since_year_0 / 146_097, since_year_0 % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let from_march = (5 * day + 2) / 153;
    let day = day - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    Some((400 * era + year + u64::from(month <= 2), month, day))
}

impl FromStr for UploadTime {
    type Err = InvalidUploadTime;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (seconds, fraction) = text
            .strip_suffix('Z')
            .map(|rest| rest.split_once('.').unwrap_or((rest, "0")))
            .unwrap_or_default();
        let shape = "0000-00-00T00:00:00";
        let alike = seconds.len() == shape.len()
            && seconds.chars().zip(shape.chars()).all(|(c, like)| {
                if like == '0' {
                    c.is_ascii_digit()
                } else {
                    c == like
                }
            });
        let digits =
            (1..=6).contains(&fraction.len()) && fraction.chars().all(|c| c.is_ascii_digit());
        if alike && digits {
            Ok(Self(text.into()))
        } else {
            Err(InvalidUploadTime(text.to_owned()))
        }
    }
}

impl fmt::Display for UploadTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn upload_times_are_in_utc_and_say_so() {
        let time = |text: &str| text.parse::<UploadTime>().map(|time| time.to_string());
        for text in ["2026-03-01T12:00:05Z", "2026-03-01T12:00:05.250000Z"] {
            assert_eq!(time(text), Ok(text.to_owned()));
        }
        let refused = [
            "",
            "Z",
            "2026-03-01",
            "2026-03-01T12:00:05",
            "2026-03-01 12:00:05Z",
            "2026-03-01T12:00:05.Z",
            "2026-03-01T12:00:05.1234567Z",
            "2026-03-01T12:00:05+01:00Z",
            "2026-03-01T12:00:0\u{665}Z",
        ];
        for text in refused {
            assert!(time(text).is_err(), "{text}");
        }
        insta::assert_snapshot!(time("\">").unwrap_err(), @r#"not a time like `2026-03-01T12:00:05Z`: "\">""#);
    }

    #[test]
    fn a_moment_is_told_as_the_calendar_has_it() {
        let told = |seconds| UploadTime::of(UNIX_EPOCH + Duration::from_secs(seconds));
        let moments = [
            0,
            951_782_399,
            951_782_400,
            951_868_800,
            1_772_366_405,
            4_107_542_399,
        ];
        let lines: Vec<String> = moments
            .iter()
            .map(|at| told(*at).unwrap().to_string())
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @"
        1970-01-01T00:00:00Z
        2000-02-28T23:59:59Z
        2000-02-29T00:00:00Z
        2000-03-01T00:00:00Z
        2026-03-01T12:00:05Z
        2100-02-28T23:59:59Z
        ");
        assert_eq!(UploadTime::of(UNIX_EPOCH - Duration::from_secs(1)), None);
        // A year of five digits.
        assert_eq!(told(u64::MAX >> 20), None);
    }
}
