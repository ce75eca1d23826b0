use rusqlite::{OptionalExtension, params_from_iter};

use super::ToolError;
use super::database::Writing;
use crate::json::{self, Canonical, Value};
use crate::key::OperationKey;

/// Where a tool keeps its replay records: under each key, what was asked and what was answered. Every
/// type of operation has a table of its own, so that no tool finds another one's answer.
#[derive(Debug)]
pub(super) struct Records {
    pub(super) table: &'static str,
    /// Creates the table where it is missing.
    pub(super) schema: &'static str,
    /// Selects payload and response; its parameters are the key's own columns.
    pub(super) select: &'static str,
    /// Adds a record; its parameters are the key's own columns, payload and response.
    pub(super) insert: &'static str,
}

impl Records {
    /// The recorded answer to the key in `columns`, if there is one for this payload.
    pub(super) fn find(
        &self,
        writing: &Writing<'_>,
        key: &OperationKey,
        columns: &[&str],
        payload: &str,
    ) -> Result<Option<Value>, ToolError> {
        let record: Option<(String, String)> = writing
            .prepare(self.select)?
            .query_row(params_from_iter(columns), |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        match record {
            None => Ok(None),
            Some((recorded, _)) if recorded != payload => {
                Err(ToolError::PayloadConflict { key: key.clone() })
            }
            Some((_, response)) => json::parse(&response)
                .map(Some)
                .map_err(|_| ToolError::UnreadableRecord { key: key.clone() }),
        }
    }

    /// Records what was answered to the key in `columns`.
    pub(super) fn add(
        &self,
        writing: &Writing<'_>,
        columns: &[&str],
        payload: &str,
        response: &Value,
    ) -> Result<(), ToolError> {
        let response = response.compact();
        let values = columns.iter().copied().chain([payload, &response]);
        writing.insert(self.table, self.insert, params_from_iter(values))
    }
}
