//! How much work a schema may make.
//!
//! Two kilobytes of schema in which each of forty definitions refers twice to the next make 2⁴⁰ visits: the validator
//! remembers what it has seen only where references form a ring, and collecting errors it remembers nothing, so that a
//! recursive `oneOf` of many branches grows as fast with the depth of the value. The work is estimated first.

use std::collections::HashMap;

use serde_json::Value;

use crate::schema::place::local;

/// Keywords that apply their subschemas to the same value.
const SAME_VALUE: [&str; 10] = [
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "dependencies",
    "$ref",
];

/// Keywords of which at most one subschema applies to each value inside.
const ONE_INSIDE: [&str; 2] = ["properties", "prefixItems"];

/// Keywords whose subschemas all may apply to each value inside.
const ALL_INSIDE: [&str; 8] = [
    "patternProperties",
    "additionalProperties",
    "propertyNames",
    "items",
    "additionalItems",
    "contains",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// How often one place in a value `depth` levels deep may be visited while errors are collected, at most.
pub(crate) fn visits(root: &Value, depth: usize) -> u64 {
    Estimate {
        root,
        known: HashMap::new(),
    }
    .of(root, Some(depth))
}

/// How often one place in any value may be visited while it is only decided whether the value fits.
pub(crate) fn visits_to_decide(root: &Value) -> u64 {
    Estimate {
        root,
        known: HashMap::new(),
    }
    .of(root, None)
}

struct Estimate<'a> {
    root: &'a Value,
    /// By schema and levels left in the value; without levels, each ring of references is walked once.
    known: HashMap<(*const Value, Option<usize>), u64>,
}

impl<'a> Estimate<'a> {
    fn of(&mut self, schema: &'a Value, depth: Option<usize>) -> u64 {
        let Some(object) = schema.as_object() else {
            return 1;
        };
        if let Some(known) = self.known.get(&(std::ptr::from_ref(schema), depth)) {
            return *known;
        }
        // A ring of references meets this while it is open: the validator notices rings too.
        self.known.insert((schema, depth), 1);
        let mut visits: u64 = 1;
        for keyword in SAME_VALUE {
            if let Some(inner) = object.get(keyword) {
                visits = self
                    .subschemas(keyword, inner)
                    .into_iter()
                    .fold(visits, |sum, s| sum.saturating_add(self.of(s, depth)));
            }
        }
        if depth.is_some() && (object.contains_key("$dynamicRef") || object.contains_key("$recursiveRef")) {
            visits = u64::MAX;
        }
        if depth != Some(0) {
            let depth = depth.map(|levels| levels - 1);
            for keyword in ONE_INSIDE {
                let inner = object
                    .get(keyword)
                    .map(|inner| self.subschemas(keyword, inner))
                    .unwrap_or_default();
                let most = inner
                    .into_iter()
                    .map(|s| self.of(s, depth))
                    .max()
                    .unwrap_or_default();
                visits = visits.saturating_add(most);
            }
            for keyword in ALL_INSIDE {
                let inner = object
                    .get(keyword)
                    .map(|inner| self.subschemas(keyword, inner))
                    .unwrap_or_default();
                visits = inner
                    .into_iter()
                    .fold(visits, |sum, s| sum.saturating_add(self.of(s, depth)));
            }
        }
        self.known.insert((schema, depth), visits);
        visits
    }

    /// The schemas that stand under a keyword: itself, a list, or a map by name.
    fn subschemas(&self, keyword: &str, inner: &'a Value) -> Vec<&'a Value> {
        match (keyword, inner) {
            ("$ref", Value::String(reference)) => local(self.root, reference).into_iter().collect(),
            (_, Value::Array(items)) => items.iter().collect(),
            (
                "properties" | "patternProperties" | "dependentSchemas" | "dependencies",
                Value::Object(map),
            ) => map.values().collect(),
            _ => vec![inner],
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_binary_tree_is_visited_once_per_place() {
        let tree = json!({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}});
        assert!(visits(&tree, 100) < 1_000);
        assert!(visits_to_decide(&tree) < 10);
    }

    #[test]
    fn alternatives_that_recur_multiply_with_depth() {
        let branch = json!({"properties": {"inner": {"$ref": "#"}}});
        let schema = json!({"oneOf": [branch, branch]});
        assert!(visits(&schema, 3) < 100);
        assert!(visits(&schema, 60) > 1 << 60);
        assert!(visits_to_decide(&schema) < 10, "deciding remembers rings");
    }

    #[test]
    fn doubled_references_multiply_without_depth() {
        let mut definitions = serde_json::Map::new();
        for i in 0..70 {
            let next = format!("#/$defs/d{}", i + 1);
            definitions.insert(
                format!("d{i}"),
                json!({"anyOf": [{"$ref": next}, {"$ref": next}]}),
            );
        }
        let schema = json!({"$ref": "#/$defs/d0", "$defs": definitions});
        assert_eq!(visits(&schema, 0), u64::MAX);
        assert_eq!(visits_to_decide(&schema), u64::MAX);
    }

    #[test]
    fn a_ring_of_references_ends() {
        assert!(visits(&json!({"$ref": "#"}), 5) < 100);
    }
}
