package demo

import "strings"

// entrants are those who may win: people to whom computing owes something.
var entrants = []string{
	"Ada Lovelace", "Alan Kay", "Alan Turing", "Alonzo Church", "Annie Easley",
	"Barbara Liskov", "Betty Holberton", "Butler Lampson", "Claude Shannon", "Dana Angluin",
	"Dennis Ritchie", "Donald Knuth", "Dorothy Vaughan", "Edsger Dijkstra", "Evelyn Boyd Granville",
	"Frances Allen", "Fred Brooks", "Grace Hopper", "Hedy Lamarr", "Ivan Sutherland",
	"Jean Sammet", "Joan Clarke", "John Backus", "John McCarthy", "Karen Spärck Jones",
	"Katherine Johnson", "Ken Thompson", "Konrad Zuse", "Kristen Nygaard", "Leslie Lamport",
	"Lynn Conway", "Margaret Hamilton", "Mary Shaw", "Niklaus Wirth", "Per Brinch Hansen",
	"Radia Perlman", "Robin Milner", "Shafi Goldwasser", "Sophie Wilson", "Tony Hoare",
}

// split reads a list of names as the register of the lottery has it.
func split(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}
