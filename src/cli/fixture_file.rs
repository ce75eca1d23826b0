use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use tool_retries::json::MAX_TEXT_BYTES;
use tool_retries::scenario::Fixture;

use super::Failure;

/// The fixture in this file; without one the project's own.
pub(super) fn read(path: Option<&Path>) -> Result<Fixture, Failure> {
    let Some(path) = path else {
        return Ok(Fixture::committed());
    };
    match text(path) {
        Err(error) => Err(Failure::at(path, format_args!("cannot be read: {error}"))),
        Ok(Text::TooLong { bytes }) => {
            let bytes = match bytes {
                Some(bytes) => bytes.to_string(),
                None => format!("more than {MAX_TEXT_BYTES}"),
            };
            Err(Failure::at(
                path,
                format_args!("the file has {bytes} bytes; at most {MAX_TEXT_BYTES} are read"),
            ))
        }
        Ok(Text::Whole(bytes)) => Fixture::parse(&bytes).map_err(|error| Failure::at(path, error)),
    }
}

enum Text {
    Whole(Vec<u8>),
    /// How many bytes there are, where the file says so: a pipe or a device does not.
    TooLong {
        bytes: Option<u64>,
    },
}

/// Reads no more than a byte beyond the limit, as there may be no end.
fn text(path: &Path) -> io::Result<Text> {
    let limit = MAX_TEXT_BYTES as u64 + 1;
    let mut file = File::open(path)?;
    let mut bytes = Vec::new();
    let read = file.by_ref().take(limit).read_to_end(&mut bytes)? as u64;
    if read < limit {
        return Ok(Text::Whole(bytes));
    }
    let length = file.metadata()?.len();
    Ok(Text::TooLong {
        bytes: (length >= limit).then_some(length),
    })
}
