//! How much work a schema may make.
//!
//! Two kilobytes of schema in which each of forty definitions refers twice to the next make 2⁴⁰ visits: the validator
//! remembers what it has seen only where references form a ring, and collecting errors it remembers nothing, so that a
//! recursive `oneOf` of many branches grows as fast with the depth of the value. The work is estimated first.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::schema::place::local;

/// Keywords that apply their subschemas to the same value.
const SAME_VALUE: [&str; 10] =
    ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies", "$ref"];

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

/// Longest chain of subschemas and references walked. The validator recurses along it, and 500 fit the 2 MiB stack
/// of a worker thread; written-out schemas stay under 128 by their nesting alone.
pub(crate) const MAX_HEIGHT: usize = 256;

/// What deciding or explaining costs, at most, for any one place of a value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// How often the place is visited.
    pub(crate) visits: u64,
    /// How many schemas in a row apply to the same place.
    pub(crate) chain: usize,
    /// How many schemas in a row there are from the root down; [`MAX_HEIGHT`] and one if there are more.
    pub(crate) height: usize,
}

const ONE: Effort = Effort { visits: 1, chain: 1, height: 1 };
const BEYOND: Effort = Effort { visits: u64::MAX, chain: MAX_HEIGHT, height: MAX_HEIGHT + 1 };

/// To decide whether any value fits.
pub(crate) fn to_decide(root: &Value) -> Effort {
    Estimate { root, known: HashMap::new() }.of(root, None, 0)
}

/// To explain why a value `depth` levels deep does not fit.
pub(crate) fn to_explain(root: &Value, depth: usize) -> Effort {
    Estimate { root, known: HashMap::new() }.of(root, Some(depth), 0)
}

struct Estimate<'a> {
    root: &'a Value,
    /// By schema and levels left in the value; without levels, each ring of references is walked once.
    known: HashMap<(*const Value, Option<usize>), Effort>,
}

impl<'a> Estimate<'a> {
    fn of(&mut self, schema: &'a Value, depth: Option<usize>, level: usize) -> Effort {
        let Some(object) = schema.as_object() else {
            return ONE;
        };
        if let Some(known) = self.known.get(&(std::ptr::from_ref(schema), depth)) {
            return *known;
        }
        let recurs = object.contains_key("$dynamicRef") || object.contains_key("$recursiveRef");
        if level > MAX_HEIGHT || (recurs && depth.is_some()) {
            return BEYOND;
        }
        // A ring of references meets this while it is open: the validator notices rings too.
        self.known.insert((schema, depth), ONE);
        let mut effort = ONE;
        for inner in self.under(object, &SAME_VALUE) {
            let inner = self.of(inner, depth, level + 1);
            effort.visits = effort.visits.saturating_add(inner.visits);
            effort.chain = effort.chain.max(inner.chain + 1);
            effort.height = effort.height.max(inner.height + 1);
        }
        if depth != Some(0) {
            let depth = depth.map(|levels| levels - 1);
            let mut most = 0;
            for inner in self.under(object, &ONE_INSIDE) {
                let inner = self.of(inner, depth, level + 1);
                most = most.max(inner.visits);
                effort.height = effort.height.max(inner.height + 1);
            }
            effort.visits = effort.visits.saturating_add(most);
            for inner in self.under(object, &ALL_INSIDE) {
                let inner = self.of(inner, depth, level + 1);
                effort.visits = effort.visits.saturating_add(inner.visits);
                effort.height = effort.height.max(inner.height + 1);
            }
        }
        effort.chain = effort.chain.min(MAX_HEIGHT);
        effort.height = effort.height.min(MAX_HEIGHT + 1);
        self.known.insert((schema, depth), effort);
        effort
    }

    fn under(&self, object: &'a Map<String, Value>, keywords: &[&str]) -> Vec<&'a Value> {
        let present = keywords.iter().filter_map(|keyword| Some((*keyword, object.get(*keyword)?)));
        present.flat_map(|(keyword, inner)| self.subschemas(keyword, inner)).collect()
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
        assert!(to_explain(&tree, 100).visits < 1_000);
        assert!(to_decide(&tree).visits < 10);
    }

    #[test]
    fn alternatives_that_recur_multiply_with_depth() {
        let branch = json!({"properties": {"inner": {"$ref": "#"}}});
        let schema = json!({"oneOf": [branch, branch]});
        assert!(to_explain(&schema, 3).visits < 100);
        assert!(to_explain(&schema, 60).visits > 1 << 60);
        assert!(to_decide(&schema).visits < 10, "deciding remembers rings");
    }

    #[test]
    fn doubled_references_multiply_without_depth() {
        let mut definitions = Map::new();
        for i in 0..70 {
            let next = format!("#/$defs/d{}", i + 1);
            definitions.insert(format!("d{i}"), json!({"anyOf": [{"$ref": next}, {"$ref": next}]}));
        }
        let schema = json!({"$ref": "#/$defs/d0", "$defs": definitions});
        assert_eq!(to_explain(&schema, 0).visits, u64::MAX);
        assert_eq!(to_decide(&schema).visits, u64::MAX);
    }

    #[test]
    fn a_chain_too_long_for_a_stack_is_noticed() {
        for (links, beyond) in [(100, false), (300, true), (100_000, true)] {
            let mut definitions = Map::new();
            for i in 0..links {
                definitions.insert(format!("d{i}"), json!({"$ref": format!("#/$defs/d{}", i + 1)}));
            }
            let schema = json!({"$ref": "#/$defs/d0", "$defs": definitions});
            assert_eq!(to_decide(&schema).height > MAX_HEIGHT, beyond, "{links}");
            assert_eq!(to_explain(&schema, 0).height > MAX_HEIGHT, beyond, "{links}");
        }
    }

    #[test]
    fn a_ring_of_references_ends() {
        assert!(to_explain(&json!({"$ref": "#"}), 5).visits < 100);
    }
}
