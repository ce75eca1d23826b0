use std::time::Duration;

use super::super::call::Parameter::{Key, Number, Payload, Response};
use super::super::call::{Call, Refusal};
use crate::tool::{AFTER_BEGIN, AFTER_COMMIT, BEFORE_BEGIN, BEFORE_COMMIT, BEFORE_RECORD};

/// A record without a response is a claim: somebody works on it, until the lease is over.
pub(super) const SCHEMA: &str = "\
CREATE TABLE tickets(id INTEGER PRIMARY KEY, payload TEXT NOT NULL);
CREATE TABLE requests(key TEXT PRIMARY KEY, payload TEXT NOT NULL, response TEXT,
    claims INTEGER NOT NULL, leased_until_ms INTEGER NOT NULL)";

/// Claims the key in a transaction of its own. The second transaction makes the effect and answers
/// only while the claim is still this call's: whoever took it over counts it up.
pub(super) async fn serve(call: &Call, lease: Option<Duration>) -> Result<i64, Refusal> {
    call.reach(BEFORE_BEGIN).await;
    call.run("BEGIN IMMEDIATE", &[]).await?;
    let found = call
        .find(
            "SELECT payload, response, claims, leased_until_ms FROM requests WHERE key = ?1",
            &[Key],
        )
        .await?;
    let claims = match found {
        Some(record) => {
            record.check_payload(call)?;
            if record.response.is_some() {
                let ticket = record.answer(call)?;
                call.run("COMMIT", &[]).await?;
                call.reach(AFTER_COMMIT).await;
                return Ok(ticket);
            }
            if call.now_ms() < record.leased_until_ms {
                return Err(Refusal::InProgress);
            }
            call.write(
                "UPDATE requests SET claims = claims + 1, leased_until_ms = ?2 WHERE key = ?1",
                &[Key, Number(call.leased_until_ms(lease))],
            )
            .await?;
            record.claims + 1
        }
        None => {
            call.write(
                "INSERT INTO requests(key, payload, claims, leased_until_ms) VALUES (?1, ?2, 1, ?3)",
                &[Key, Payload, Number(call.leased_until_ms(lease))],
            )
            .await?;
            1
        }
    };
    call.run("COMMIT", &[]).await?;
    call.reach(BEFORE_RECORD).await;
    call.run("BEGIN IMMEDIATE", &[]).await?;
    call.reach(AFTER_BEGIN).await;
    let ticket = call.open_ticket().await?;
    call.reach(BEFORE_COMMIT).await;
    let mine = call
        .run(
            "UPDATE requests SET response = ?3 WHERE key = ?1 AND claims = ?2 AND response IS NULL",
            &[Key, Number(claims), Response(ticket)],
        )
        .await?;
    if mine == 0 {
        return Err(Refusal::InProgress);
    }
    call.run("COMMIT", &[]).await?;
    call.reach(AFTER_COMMIT).await;
    Ok(ticket)
}
