use super::super::call::Parameter::{Key, Payload, Response};
use super::super::call::{Call, Refusal};
use crate::tool::{AFTER_BEGIN, AFTER_COMMIT, BEFORE_BEGIN, BEFORE_COMMIT};

/// The record is there before its response is, but never committed without it.
pub(super) const SCHEMA: &str = "\
CREATE TABLE tickets(id INTEGER PRIMARY KEY, payload TEXT NOT NULL);
CREATE TABLE requests(key TEXT PRIMARY KEY, payload TEXT NOT NULL, response TEXT)";

/// The first statement is a write, so the deferred transaction has the write lock before it reads
/// anything, and the key's uniqueness tells who is first.
pub(super) async fn serve(call: &Call) -> Result<i64, Refusal> {
    call.reach(BEFORE_BEGIN).await;
    call.run("BEGIN", &[]).await?;
    let first = call
        .run(
            "INSERT OR IGNORE INTO requests(key, payload) VALUES (?1, ?2)",
            &[Key, Payload],
        )
        .await?;
    call.reach(AFTER_BEGIN).await;
    let ticket = if first == 1 {
        let ticket = call.open_ticket().await?;
        call.reach(BEFORE_COMMIT).await;
        call.write(
            "UPDATE requests SET response = ?2 WHERE key = ?1",
            &[Key, Response(ticket)],
        )
        .await?;
        ticket
    } else {
        let found = call
            .find(
                "SELECT payload, response FROM requests WHERE key = ?1",
                &[Key],
            )
            .await?;
        found.ok_or(Refusal::Failed)?.answer(call)?
    };
    call.run("COMMIT", &[]).await?;
    call.reach(AFTER_COMMIT).await;
    Ok(ticket)
}
