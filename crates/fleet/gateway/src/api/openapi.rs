//! The API's description (OpenAPI 3.1), generated from the table of operations.

use serde_json::{Map, Value, json};

use super::operation::{ApiField, FieldKind, Operation};
use super::operations::OPERATIONS;

/// The OpenAPI document.
pub fn document() -> Value {
    let mut paths = Map::new();
    for operation in OPERATIONS {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method.as_str().to_ascii_lowercase()] = described(operation);
    }
    paths.insert("/api/v1/fleet".to_owned(), stream());
    paths.insert("/metrics".to_owned(), text("Metrics of the fleet for Prometheus"));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Fullbore: the operator's API of a gateway",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Every request needs an operator's token or certificate. Every change has a line in the audit log."
        },
        "security": [{ "token": [] }, { "certificate": [] }],
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" }, "certificate": { "type": "mutualTLS" } },
            "schemas": { "Error": schema(&[super::operation::needed("error", FieldKind::Text, "What is wrong, as a sentence.")]) }
        },
        "paths": paths
    })
}

fn described(operation: &Operation) -> Value {
    let segments = operation.path.split('/').filter_map(|segment| {
        let name = segment.strip_prefix('{')?.strip_suffix('}')?;
        Some(
            json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }),
        )
    });
    let query = operation.query.iter().map(|field| {
        json!({
            "name": field.name, "in": "query", "required": field.is_required,
            "description": field.what, "schema": { "type": field.kind.as_str() }
        })
    });
    let parameters: Vec<_> = segments.chain(query).collect();
    let mut described = json!({
        "summary": operation.summary,
        "description": format!("Needs the role {}.", operation.role.as_str()),
        "parameters": parameters,
        "responses": {
            "200": { "description": "Done.", "content": { "application/json": { "schema": answer(operation) } } },
            "default": {
                "description": "Not done.",
                "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } }
            }
        }
    });
    if !operation.body.is_empty() {
        let is_required = operation.body.iter().any(|field| field.is_required);
        described["requestBody"] = json!({
            "required": is_required,
            "content": { "application/json": { "schema": schema(operation.body) } }
        });
    }
    described
}

fn answer(operation: &Operation) -> Value {
    let mut answer = schema(operation.answer);
    answer["properties"]["version"] = json!({ "const": 1 });
    answer
}

fn schema(fields: &[ApiField]) -> Value {
    let property = |field: &ApiField| {
        (field.name.to_owned(), json!({ "type": field.kind.as_str(), "description": field.what }))
    };
    let properties: Map<_, _> = fields.iter().map(property).collect();
    let required = fields.iter().filter(|field| field.is_required);
    let required: Vec<_> = required.map(|field| field.name).collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

fn stream() -> Value {
    let mut stream = text("The contents of the fleet page, once a second, as server-sent events");
    stream["get"]["responses"]["200"]["content"] = json!({ "text/event-stream": {} });
    stream
}

fn text(summary: &str) -> Value {
    json!({ "get": {
        "summary": summary,
        "description": "Needs the role read.",
        "responses": { "200": { "description": "Done.", "content": { "text/plain": {} } } }
    } })
}
