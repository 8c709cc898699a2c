// Graph as a model of Boost.Graph's VertexListGraph, IncidenceGraph, BidirectionalGraph and AdjacencyGraph, so that
// its algorithms (topological order, dominators, articulation points, cuts, isomorphism, DOT) run on it directly.
//
// A vertex is the position of a node in Graph::nodes(); an edge (producer, user) stands for all values that `user`
// reads from `producer`. vertex_index is the identity.
#pragma once

#include <boost/graph/graph_traits.hpp>
#include <boost/graph/properties.hpp>
#include <boost/iterator/counting_iterator.hpp>
#include <boost/iterator/transform_iterator.hpp>
#include <boost/property_map/property_map.hpp>
#include <cstddef>
#include <utility>
#include <vector>

#include "core/graph.h"

namespace rewright {

using GraphVertex = size_t;
using GraphEdge = std::pair<GraphVertex, GraphVertex>;  // producer, user

namespace internal {

struct ToUser {
  GraphVertex producer = 0;
  GraphEdge operator()(int user) const { return {producer, static_cast<GraphVertex>(user)}; }
};
struct FromProducer {
  GraphVertex user = 0;
  GraphEdge operator()(int producer) const { return {static_cast<GraphVertex>(producer), user}; }
};
struct ToVertex {
  GraphVertex operator()(int i) const { return static_cast<GraphVertex>(i); }
};
using Positions = std::vector<int>::const_iterator;
struct GraphCategory : boost::vertex_list_graph_tag, boost::bidirectional_graph_tag, boost::adjacency_graph_tag {};

}  // namespace internal

using OutEdgeIterator = boost::transform_iterator<internal::ToUser, internal::Positions, GraphEdge, GraphEdge>;
using InEdgeIterator = boost::transform_iterator<internal::FromProducer, internal::Positions, GraphEdge, GraphEdge>;
using AdjacencyIterator = boost::transform_iterator<internal::ToVertex, internal::Positions, GraphVertex, GraphVertex>;

inline std::pair<boost::counting_iterator<GraphVertex>, boost::counting_iterator<GraphVertex>> vertices(
    const Graph& graph) {
  return {boost::counting_iterator<GraphVertex>(0), boost::counting_iterator<GraphVertex>(graph.nodes().size())};
}
inline size_t num_vertices(const Graph& graph) { return graph.nodes().size(); }

inline std::pair<OutEdgeIterator, OutEdgeIterator> out_edges(GraphVertex v, const Graph& graph) {
  const std::vector<int>& users = graph.users(static_cast<int>(v));
  return {OutEdgeIterator(users.begin(), internal::ToUser{v}), OutEdgeIterator(users.end(), internal::ToUser{v})};
}
inline size_t out_degree(GraphVertex v, const Graph& graph) { return graph.users(static_cast<int>(v)).size(); }

inline std::pair<InEdgeIterator, InEdgeIterator> in_edges(GraphVertex v, const Graph& graph) {
  const std::vector<int>& producers = graph.producers(static_cast<int>(v));
  return {InEdgeIterator(producers.begin(), internal::FromProducer{v}),
          InEdgeIterator(producers.end(), internal::FromProducer{v})};
}
inline size_t in_degree(GraphVertex v, const Graph& graph) { return graph.producers(static_cast<int>(v)).size(); }
inline size_t degree(GraphVertex v, const Graph& graph) { return in_degree(v, graph) + out_degree(v, graph); }

inline std::pair<AdjacencyIterator, AdjacencyIterator> adjacent_vertices(GraphVertex v, const Graph& graph) {
  const std::vector<int>& users = graph.users(static_cast<int>(v));
  return {AdjacencyIterator(users.begin(), internal::ToVertex{}), AdjacencyIterator(users.end(), internal::ToVertex{})};
}

inline GraphVertex source(const GraphEdge& edge, const Graph&) { return edge.first; }
inline GraphVertex target(const GraphEdge& edge, const Graph&) { return edge.second; }

inline boost::typed_identity_property_map<GraphVertex> get(boost::vertex_index_t, const Graph&) { return {}; }
inline GraphVertex get(boost::vertex_index_t, const Graph&, GraphVertex v) { return v; }

}  // namespace rewright

namespace boost {

template <>
struct graph_traits<rewright::Graph> {
  using vertex_descriptor = rewright::GraphVertex;
  using edge_descriptor = rewright::GraphEdge;
  using directed_category = bidirectional_tag;
  using edge_parallel_category = disallow_parallel_edge_tag;
  using traversal_category = rewright::internal::GraphCategory;
  using vertex_iterator = counting_iterator<rewright::GraphVertex>;
  using out_edge_iterator = rewright::OutEdgeIterator;
  using in_edge_iterator = rewright::InEdgeIterator;
  using adjacency_iterator = rewright::AdjacencyIterator;
  using edge_iterator = void;
  using vertices_size_type = size_t;
  using edges_size_type = size_t;
  using degree_size_type = size_t;
  static vertex_descriptor null_vertex() { return static_cast<vertex_descriptor>(-1); }
};

template <>
struct property_map<rewright::Graph, vertex_index_t> {
  using type = typed_identity_property_map<rewright::GraphVertex>;
  using const_type = type;
};

}  // namespace boost
