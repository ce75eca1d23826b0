use super::super::call::Parameter::{Key, Payload, Response};
use super::super::call::{Call, Refusal};
use crate::tool::{AFTER_BEGIN, AFTER_COMMIT, BEFORE_BEGIN, BEFORE_COMMIT};

pub(super) const SCHEMA: &str = "\
CREATE TABLE tickets(id INTEGER PRIMARY KEY, payload TEXT NOT NULL);
CREATE TABLE requests(key TEXT PRIMARY KEY, payload TEXT NOT NULL, response TEXT NOT NULL)";

/// What the lab's tool does, with or without a key.
pub(super) async fn serve(call: &Call, begin: &'static str) -> Result<i64, Refusal> {
    call.reach(BEFORE_BEGIN).await;
    call.run(begin, &[]).await?;
    call.reach(AFTER_BEGIN).await;
    let recorded = match call.key() {
        None => None,
        Some(_) => {
            call.find(
                "SELECT payload, response FROM requests WHERE key = ?1",
                &[Key],
            )
            .await?
        }
    };
    let ticket = match recorded {
        Some(record) => record.answer(call)?,
        None => {
            let ticket = call.open_ticket().await?;
            call.reach(BEFORE_COMMIT).await;
            if call.key().is_some() {
                call.write(
                    "INSERT INTO requests(key, payload, response) VALUES (?1, ?2, ?3)",
                    &[Key, Payload, Response(ticket)],
                )
                .await?;
            }
            ticket
        }
    };
    call.run("COMMIT", &[]).await?;
    call.reach(AFTER_COMMIT).await;
    Ok(ticket)
}
